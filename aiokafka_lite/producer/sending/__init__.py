"""Sending: from ready batches to produce requests, and back to their outcome."""

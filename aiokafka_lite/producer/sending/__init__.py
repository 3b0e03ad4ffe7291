"""Sending: from ready batches to produce requests, and from answers to outcomes."""

"""Committed offsets of a group: store, messages, and the codec of the common commit."""

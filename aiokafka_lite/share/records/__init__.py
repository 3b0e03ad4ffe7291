"""Acquired records and their marks: what runs for each record, native if compiled."""

"""Batches: from `send` to a batch that is ready, with its memory and its acks."""

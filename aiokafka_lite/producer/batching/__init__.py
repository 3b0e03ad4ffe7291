"""Batching: from `send` to a batch that is ready to be sent, with its memory and its acks."""

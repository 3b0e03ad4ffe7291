"""The reads of a share consumer."""

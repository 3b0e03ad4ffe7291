"""Offsets as the command line takes them, and what they mean in a partition."""

"""Committing offsets: when the application asks, by the clock, and at the end."""

"""Keeping the metadata up to date: what to request, when, and from which broker."""

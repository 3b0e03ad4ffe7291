"""Generates docs/reference.md: options, defaults and exceptions, from signatures and docstrings."""

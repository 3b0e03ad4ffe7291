"""The release, in a separate file so that lower layers can import it."""

__version__ = "0.2.0"

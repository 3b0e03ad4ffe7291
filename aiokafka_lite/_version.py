"""The release, in a file of its own so that lower floors can name it."""

__version__ = "0.2.0"

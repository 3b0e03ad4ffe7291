"""Converts Spark's `kafka.*` options to arguments of this package's clients."""

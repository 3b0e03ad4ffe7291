"""`kafka.*` options of Spark as arguments of this package's clients."""

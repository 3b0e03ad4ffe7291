"""Groups of every type, their offsets, and the transactions of producers."""

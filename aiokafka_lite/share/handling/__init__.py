"""`run` and `process`: handles acquired records, keeps their locks, and acknowledges them."""

"""The way to a broker: the order of its addresses, and proxies."""

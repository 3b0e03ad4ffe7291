"""How a broker is reached: the order of its addresses, and proxies."""

"""Pushes a client's metrics to the brokers, if they request them (KIP-714)."""

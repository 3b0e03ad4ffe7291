"""Pushes a client's metrics to the brokers, if they ask for them (KIP-714)."""

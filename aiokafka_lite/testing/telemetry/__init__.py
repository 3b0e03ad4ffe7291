"""Metrics that clients push to the brokers (KIP-714)."""

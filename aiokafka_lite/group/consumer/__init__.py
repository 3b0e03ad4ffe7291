"""Membership in the consumer protocol of Kafka 4 (KIP-848)."""

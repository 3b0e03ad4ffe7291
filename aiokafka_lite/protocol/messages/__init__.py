"""Kafka's messages, generated from its schemas: one module per API."""

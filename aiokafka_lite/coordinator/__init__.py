"""Assignors under aiokafka's import path, and the adapter for assignors written for aiokafka."""

"""Configurations of topics, brokers and groups: tables, types, changes."""

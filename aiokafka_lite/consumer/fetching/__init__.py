"""Fetching: one fetch in flight per broker, its session, and the responses it brings."""

"""Membership in consumer groups: a sans-IO state machine for each protocol, assignors, and the
task that drives them.

This package depends neither on consumers nor on producers.
"""

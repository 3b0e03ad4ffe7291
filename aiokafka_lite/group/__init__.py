"""Membership in consumer groups: a sans-IO machine for each protocol, assignors, and the one task
that drives them.

A group knows neither consumers nor producers.
"""

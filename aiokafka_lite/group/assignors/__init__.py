"""Assignors of the classic protocol: who of a group gets which partition.

Each is a plain function of the members' subscriptions and of the topics' layouts, with the outcome
of Java's class of the same name, inside of a thin shell that speaks bytes (`abstract`).
"""

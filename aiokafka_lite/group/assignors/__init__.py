"""Assignors of the classic protocol: which member of a group gets which partitions.

Each is a pure function of the members' subscriptions and the topics' layouts, with the result of
Java's class of the same name, in a thin wrapper that encodes and decodes bytes (`interface`).
"""

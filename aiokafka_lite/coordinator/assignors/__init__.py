"""Assignors by aiokafka's names, and the base of an application's own.

A consumer takes the classes themselves: `partition_assignment_strategy=[RangePartitionAssignor]`.
"""

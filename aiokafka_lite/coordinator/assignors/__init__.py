"""Assignors under aiokafka's names, and the base class of an application's own.

Pass the classes to a consumer: `partition_assignment_strategy=[RangePartitionAssignor]`.
"""

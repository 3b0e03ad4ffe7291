"""The state of the assigned partitions, and the delivery of their records."""

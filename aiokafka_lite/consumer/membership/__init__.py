"""The consumer as a member of its group: subscription, assignment, rebalance listeners."""

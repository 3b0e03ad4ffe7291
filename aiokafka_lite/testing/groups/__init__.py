"""Groups of consumers and of others: who is in them, what they share out, what they committed.

- ``group``: what all kinds of groups have in common;
- ``registry``: the groups of a cluster;
- ``offsets``: committed offsets, pending ones of transactions too, and their expiry;
- ``classic``: the protocol in which members join, sync and send heartbeats; what it knows of
  them is in ``classic_roster``, the course of a rebalance in ``classic_rebalance``;
- ``reply``: an answer that is not known yet.

Nothing here does I/O: time is the cluster's clock, an answer that waits is a ``Reply``.
"""

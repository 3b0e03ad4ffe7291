"""Groups of consumers and of others: who is in them, what they share out, what they committed.

- `group`: what all kinds of groups have in common;
- `registry`: the groups of a cluster;
- `offsets`: committed offsets, pending ones of transactions too, and their expiry;
- `classic`: the protocol in which members join, sync and send heartbeats; what it knows of
  them is in `classic_roster`, the course of a rebalance in `classic_rebalance`;
- `consumer`: KIP-848's protocol, in which members report and are told; `reconciliation` is one
  step of a member, `assignors` share out, `regexes` are RE2's;
- `migration`: members of both protocols in one group, and the way there and back;
- `reply`: an answer that is not known yet.

Nothing here does I/O: time is the cluster's clock, an answer that waits is a `Reply`.
"""

"""Consumer groups and other groups: members, assignments, committed offsets.

- `base_group`: the common base of all kinds of groups;
- `group_registry`: the groups of a cluster;
- `group_offsets`: committed offsets, including pending ones of transactions, and their expiry;
- `classic`: the protocol with JoinGroup, SyncGroup and Heartbeat; `classic_roster` holds its
  members, `classic_rebalance` runs a rebalance;
- `consumer_group_protocol`: KIP-848's protocol; `assignment_step` advances one member,
  `assignors` compute assignments, `regexes` handles RE2 expressions;
- `migration`: members of both protocols in one group, and conversion in both directions;
- `reply`: an answer that may come later.

Nothing here does I/O: time comes from the cluster's clock, a waiting answer is a `Reply`.
"""

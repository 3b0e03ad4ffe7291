"""Share groups (KIP-932): record states, share sessions, members, offsets, dead letters.

- `share_coordination`: the share groups' state in a cluster, and the room's entry point;
- `embedded_share_group`: a group's members; `sharing_assignor` computes their assignments;
- `share_sessions`: the share sessions of one broker;
- `share_partition`: one partition as one group shares it; `in_flight_records` holds those between
  its start and end offset, `acquiring` and `acknowledging` change their states;
- `kept_states`: what outlives a leader of a share partition (`__share_group_state` in Kafka);
- `dead_letters`: archived records that a group writes to a topic (KIP-1191);
- `share_settings`: the configurations of a group.

`serving` has what ShareFetch and ShareAcknowledge do with them: `share_reading` acquires records,
`acknowledged_partitions` ends their acquisition, `share_replies` builds responses.

Nothing here does I/O: time comes from the cluster's clock.
"""

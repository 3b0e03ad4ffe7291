"""The transaction coordinator. No I/O.

- `transaction`: one transactional id: its producer, its state, its partitions;
- `ending`: the effect of EndTxn in each state;
- `transaction_coordinator`: all transactional ids, their timeouts and their expiry;
- `marking`: writes the markers that end a transaction;
- `offsets_topic`: the transactions' writes to `__consumer_offsets`;
- `verification`: checks with the coordinator before a transactional batch is appended.

The transaction state of a partition's log is in `log.producer_state`, `log.open_transactions` and
`log.control_batches`.

Source: KIP-98, KIP-360 (epoch bumps), KIP-447 (fencing by the group), KIP-890 (verification, and
an epoch per transaction).
"""

"""Transactions: what clients ask of their coordinator. No I/O.

- `transaction`: one transactional id: its producer, its state, its partitions;
- `ending`: what EndTxn does in each state;
- `coordinator`: all of them, their timeouts and their expiry;
- `marking`: writes the markers that end a transaction;
- `offsets`: what transactions write into `__consumer_offsets`;
- `verification`: what the coordinator is asked before a transactional batch is appended.

What a partition's log knows of transactions is in `testing.producers`,
`testing.open_transactions` and `testing.markers`.

Source: KIP-98, KIP-360 (epoch bumps), KIP-447 (fencing by the group), KIP-890 (verification, and
an epoch for each transaction).
"""

"""Transactions: the coordinator, and what a partition's log knows of them. No I/O.

- ``transaction``: one transactional id: its producer, its state, its partitions;
- ``coordinator``: all of them, and what clients ask of their coordinator;
- ``markers``: the control batches that end a transaction in a log;
- ``partition``: open and aborted transactions of one log, its last stable offset.

Source: KIP-98, KIP-360 (epoch bumps), KIP-447 (fencing by the group), KIP-890 (verification, and
an epoch for each transaction).
"""

"""Transactions (KIP-98): records of several partitions, and offsets, stored atomically.

- `transaction_states`: the states and their transitions;
- `transaction_errors`: the meaning of each error code for each request, a table;
- `transaction_steps`: the requests to coordinators, as sans-IO steps;
- `transaction_contents`: partitions, groups and offsets of the open transaction;
- `transaction_machine`: the sans-IO state machine that joins these;
- `transaction_requests`: encodes steps as requests, and interprets the answers;
- `begin_delay`: delays a transaction's first request while the previous one is being ended;
- `coordinator_requests`: sends a step to its coordinator;
- `transaction_driver`: joins the machine and the requests, and lets callers wait;
- `wait_times`: counts how long the callers waited.
"""

"""Transactions (KIP-98): records of several partitions, and offsets, that are stored all or none.

- `states`: what state may follow which;
- `reactions`: what each error code means for each request, a table;
- `steps`: what is asked of a coordinator;
- `contents`: what the open transaction holds;
- `machine`: the sans-IO machine that joins these;
- `requests`: steps put into requests, and answers read;
- `silence`, `patience`: how long an answer, and the next transaction, are waited for;
- `asker`: has a step asked;
- `driver`: joins machine and asker, and has callers wait; `times` counts for how long.
"""

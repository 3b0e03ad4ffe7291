"""Writes docs/embedded-broker.md from the embedded broker's own code, and checks that it is fresh.

python -m tools.broker_docs            writes it
python -m tools.broker_docs --check    compares; exit status 1 when it is stale
"""

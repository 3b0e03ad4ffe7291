"""Generates aiokafka_lite/protocol/messages from the message schemas inside Kafka's own jars.

    python -m tools.protocol_gen             write
    python -m tools.protocol_gen --check     compare with what is committed
    python -m tools.protocol_gen --releases  also write the table of API versions by release

For a new Kafka release: add it to `jars.NEWEST` and `releases.JARS`, check the differences between
releases that `merge` documents, run this, then `python -m tools.oracle --all`.
"""

"""Generates aiokafka_lite/protocol/messages from the message schemas inside Kafka's own jars.

    python -m tools.protocol_gen             write
    python -m tools.protocol_gen --check     compare with what is committed
    python -m tools.protocol_gen --releases  write the table of what each release takes as well

For a new Kafka release: name it in `jars.NEWEST` and in `releases.JARS`, look at what `merge`
tells about the places where releases disagree, run it, then `python -m tools.oracle --all`.
"""

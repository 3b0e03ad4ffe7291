"""Generates aiokafka_lite/protocol/messages from the message schemas inside Kafka's own jars.

python -m tools.protocol_gen            write
python -m tools.protocol_gen --check    compare with what is committed
"""

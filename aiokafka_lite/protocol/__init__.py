"""Kafka's protocol as bytes: no asyncio, no clock, no socket.

- `primitives`: ints, strings, arrays, tagged fields; `Reader` trusts no byte.
- `messages/`: generated, one module per API, every version since Kafka 0.8.2, both directions.
- `message`: what those have in common.
- `registry`: from an API's number to its classes, imported on first use.
- `framing`: whole frames with their headers.
- `versions`, `releases`: what both sides speak.
"""

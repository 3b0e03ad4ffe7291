"""Kafka's protocol as bytes: no asyncio, no clock, no socket.

- `primitives`: ints, strings, arrays, tagged fields; `Reader` checks all input.
- `messages/`: generated, one module per API, every version since Kafka 0.8.2, both directions.
- `message`: the base classes of the messages.
- `registry`: maps an API key to its classes, imported on first use.
- `framing`: whole frames with their headers.
- `versions`, `releases`: the API versions that client and broker support.
"""

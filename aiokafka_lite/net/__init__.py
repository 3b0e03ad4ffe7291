"""Sockets: one connection to one broker, from dialling to the last response.

From the ground up, each importing only those before it:

- `buffers`: memory of large responses, lent again when nobody looks at it;
- `frames`: received bytes in, frames out (sans-IO);
- `transport`: the asyncio protocol: writes that leave together, frames received in place;
- `known`: what was learned about brokers;
- `authenticate`: the SASL step; a mechanism is a generator of tokens, those in `sasl`;
- `renewal`: the same step again, before the broker's patience ends;
- `options`: one frozen value with everything a connection can be told;
- `dial`: names, addresses, sockets, TLS;
- `handshake`: what does the broker speak, from 0.8.2 on;
- `in_flight`: requests that wait, in order, with deadlines (sans-IO);
- `alarm`: the one timer of a connection;
- `connection`: all of it together; what other floors use.
"""

"""Sockets: one connection to one broker, from dialing to the last response.

From the bottom up; each module imports only those before it:

- `buffers`: memory for large responses, reused once no view of it exists;
- `frames`: received bytes in, frames out (sans-IO);
- `transport`: the asyncio protocol, which coalesces writes and receives frames in place;
- `api_version_cache`: remembers the versions of known brokers;
- `authenticate`: the SASL step; a mechanism is a generator of tokens, see `sasl`;
- `reauthentication`: repeats this step before the SASL session expires;
- `connection_options`: all options of a connection in one frozen value;
- `dial`: names, addresses, sockets, TLS;
- `handshake`: finds the API versions of a broker, from 0.8.2 on;
- `in_flight`: pending requests, in order, with deadlines (sans-IO);
- `deadline_timer`: the one timer of a connection;
- `connection_errors`: the errors of a lost connection;
- `connection`: combines them: requests out, responses back;
- `open_connection`: dials, agrees on versions, authenticates; other packages use this one.
"""

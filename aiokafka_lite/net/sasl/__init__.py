"""The SASL mechanisms, which make the client's tokens. No I/O; each is a generator.

- `choose`: makes a mechanism from aiokafka's `sasl_*` arguments;
- `plain`, `scram`, `oauthbearer`: one mechanism each.

`net.authenticate` sends their tokens. A mechanism serves every connection of its client and every
re-authentication.
"""

from aiokafka_lite.net.sasl.choose import choose

__all__ = ["choose"]

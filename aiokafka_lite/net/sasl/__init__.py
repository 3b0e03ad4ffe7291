"""The SASL mechanisms: what is said to prove who this client is. No I/O; each is a generator.

- `choose`: aiokafka's `sasl_*` arguments, checked, made into a mechanism;
- `plain`, `scram`, `oauthbearer`: one mechanism each.

How their tokens travel is `net.authenticate`'s business. A mechanism serves every connection of
its client, and every re-authentication.
"""

from aiokafka_lite.net.sasl.choose import choose

__all__ = ["choose"]

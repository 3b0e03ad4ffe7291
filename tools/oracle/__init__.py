"""Compares this project's protocol code with the Java client.

Every message of `tools.protocol_gen`, in every version, is filled with random and edge values. Both
must encode it to the same bytes, and the Java client's bytes must decode to the same message.
Versions that the newest release supports are compared with it, older ones with the last 3.x.

    python -m tools.oracle --all            40 cases of each message and version
    python -m tools.oracle --cases 3000     a seeded sample
    python -m tools.oracle --golden         rewrite tests/golden/messages.jsonl
"""

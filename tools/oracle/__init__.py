"""The Java client as the judge of our protocol code.

Every message of `tools.protocol_gen`, in every version, is filled with random and edge values;
our bytes must be the Java client's, and the Java client's bytes must decode to what we meant.
Versions that the newest release speaks are judged by it, the older ones by the last 3.x.

    python -m tools.oracle --all            everything: 40 cases of each message and version
    python -m tools.oracle --cases 3000     a seeded sample
    python -m tools.oracle --golden         rewrite tests/golden/messages.jsonl
"""

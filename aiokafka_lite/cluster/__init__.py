"""The cluster layer: metadata, brokers, and requests to them.

Sans-IO: `metadata` (snapshots), `metadata_merge` (the next snapshot), `large_metadata` (large
responses), `bootstrap` (the initial addresses), `outage` (what to log). With sockets: `broker` (one
broker's connections), `brokers` (all of them, by load), `refresh` (keeping the metadata up to
date), `cluster` (the client's view), `coordinators` (shared lookups), `retry` (the retry loop and
its routes).
"""

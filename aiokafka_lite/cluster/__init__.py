"""The cluster floor: what is known of the cluster, its brokers, and how to ask them.

Sans-IO: `metadata` (snapshot and merge), `topics` (what to ask about), `refresh` (when),
`bootstrap` (where to begin). With sockets: `broker` (one broker's connections), `brokers` (all of
them, by load), `cluster` (the client's one view), `coordinators` (what was looked up, once for all
who ask), `retry` (the one retry loop and its routes).
"""

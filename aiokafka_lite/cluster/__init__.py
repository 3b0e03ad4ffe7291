"""The cluster floor: what is known of the cluster, its brokers, and how to ask them.

Sans-IO: `metadata` (snapshot and merge), `topics` (what to ask about), `refresh` (when),
`bootstrap` (where to begin), `coordinators` (what was looked up). With sockets: `broker` (one
broker's connections), `brokers` (all of them, by load), `cluster` (the client's one view), `retry`
(the one retry loop and its routes).
"""

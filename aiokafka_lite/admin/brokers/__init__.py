"""The cluster itself: brokers, features, the metadata quorum."""

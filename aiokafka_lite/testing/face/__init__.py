"""Base classes of `FakeCluster`: fault control, mutations, inspection."""

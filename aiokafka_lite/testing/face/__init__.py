"""The parts of `FakeCluster`'s face: faults, mutations, inspection."""

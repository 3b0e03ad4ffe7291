"""The log of a partition: segments, checks of what enters, compaction, retention."""

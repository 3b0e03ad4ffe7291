"""Topics and partitions: creation, description, records, log directories, reassignments,
elections."""

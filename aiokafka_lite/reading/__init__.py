"""What the consumer and the share consumer do alike with the records that they read."""

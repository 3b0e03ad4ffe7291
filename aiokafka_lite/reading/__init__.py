"""Code that the consumer and the share consumer share."""

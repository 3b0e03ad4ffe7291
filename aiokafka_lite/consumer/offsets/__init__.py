"""Finding and validating the position of a partition."""

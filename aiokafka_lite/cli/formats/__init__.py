"""Records as text: the format language of -f, in both directions, and JSON lines."""

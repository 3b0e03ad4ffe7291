"""Buffering of fetched records until they are delivered."""

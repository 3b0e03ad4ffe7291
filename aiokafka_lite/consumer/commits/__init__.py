"""Offset commits: by the application, periodic, and on `stop`."""

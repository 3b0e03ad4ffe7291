"""The journal of the state that survives a restart, in memory or in a file."""

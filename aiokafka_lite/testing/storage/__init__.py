"""The journal of what a cluster remembers over a restart, in memory or in a file."""

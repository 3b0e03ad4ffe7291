"""One module per client; each module has the same functions, one per kind of work."""

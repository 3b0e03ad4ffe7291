"""One module a client; every module has the same functions, one a kind of work."""

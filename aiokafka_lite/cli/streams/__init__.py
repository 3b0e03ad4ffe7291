"""Standard input, files and standard output, without blocking the event loop."""

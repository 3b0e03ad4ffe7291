"""Output that is generated from the parsers: completion, and help as JSON."""

"""TLS: contexts from files or PEM text, their renewal, and what a failed handshake means."""

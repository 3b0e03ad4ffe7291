"""Sockets of a broker: listener, connections, requests on their way to an answer."""

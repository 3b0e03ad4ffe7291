"""The broker's sockets: listener, connections and request processing."""

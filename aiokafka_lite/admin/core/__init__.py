"""How a request of the admin client is routed, retried and turned into one result per item."""

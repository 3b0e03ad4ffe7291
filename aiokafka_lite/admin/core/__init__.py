"""Routes and retries the requests of the admin client, and returns one result per item."""

"""Authentication and authorization: users, the server side of SASL mechanisms, ACLs. No I/O."""

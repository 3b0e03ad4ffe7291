"""Who a client is: users, the SASL mechanisms as a server speaks them, and how far each connection
has come with one. No I/O.
"""

"""The share sessions with the leaders: fetches, acknowledgements, their errors."""

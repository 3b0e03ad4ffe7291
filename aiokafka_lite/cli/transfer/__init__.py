"""The work of `produce` and `consume`."""

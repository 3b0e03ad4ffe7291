"""Fetched records on their way to the application."""

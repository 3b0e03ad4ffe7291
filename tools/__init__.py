"""Development tools: nothing here is part of the installed package."""

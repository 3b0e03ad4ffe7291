"""The documentation site: pages that are not in docs/, and links that work there and on GitHub."""

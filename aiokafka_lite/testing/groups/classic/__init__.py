"""The coordinator side of groups with the classic protocol."""

"""Code shared by several APIs of the embedded broker."""

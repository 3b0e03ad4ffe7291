"""What several APIs of the embedded broker share."""

"""What the administrative commands share: actions, output, confirmation."""

"""Code that the administrative commands share: actions, output, confirmation."""

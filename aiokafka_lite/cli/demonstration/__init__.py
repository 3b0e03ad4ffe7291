"""What `demo` and `pipeline demo` run."""

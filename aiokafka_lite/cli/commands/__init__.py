"""The commands, a module each: `NAME_command`, with `add_arguments(parser)` and `run(args)`."""

"""The connection settings of a command: flags, options, profiles, files of other tools."""

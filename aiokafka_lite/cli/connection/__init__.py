"""How a command reaches a cluster: flags, options, profiles, files of other tools."""

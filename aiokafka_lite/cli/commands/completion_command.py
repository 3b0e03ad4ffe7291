"""`completion bash|zsh|fish`: prints a script that completes commands, flags, topics and groups."""

from __future__ import annotations

import argparse
from typing import Final

__all__ = ["EXAMPLES", "add_arguments", "run"]

EXAMPLES: Final = """
examples:
  source <(aiokafka-lite completion bash)                                     in ~/.bashrc
  source <(aiokafka-lite completion zsh)                                      in ~/.zshrc
  aiokafka-lite completion fish > ~/.config/fish/completions/aiokafka-lite.fish
"""

# Each shell calls the program itself, so that a script does not become outdated.
_SCRIPTS: Final = {
    "bash": r"""_aiokafka_lite() {
    local IFS=$'\n'
    COMPREPLY=( $(aiokafka-lite --complete "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null) )
}
complete -o default -F _aiokafka_lite aiokafka-lite
""",
    "zsh": r"""#compdef aiokafka-lite
_aiokafka_lite() {
    local -a found
    found=("${(@f)$(aiokafka-lite --complete "${(@)words[2,CURRENT]}" 2>/dev/null)}")
    if [[ -n "${found[1]}" ]]; then compadd -a found; else _files; fi
}
compdef _aiokafka_lite aiokafka-lite
""",
    "fish": r"""function __aiokafka_lite
    set -l words (commandline -opc)
    aiokafka-lite --complete $words[2..-1] (commandline -ct) 2>/dev/null
end
complete -c aiokafka-lite -a '(__aiokafka_lite)'
""",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `completion`."""
    parser.add_argument(
        "shell", metavar="SHELL", choices=sorted(_SCRIPTS), help="bash, fish or zsh"
    )


def run(args: argparse.Namespace) -> int:
    """Print the script."""
    print(_SCRIPTS[args.shell], end="")
    return 0

"""Runs commands as a user does: in a separate process, with pipes and without a terminal."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

COMMAND = (sys.executable, "-m", "aiokafka_lite")
# A shell starts background jobs, such as a test run, with SIGINT ignored, and children inherit it.
LISTENING = (
    sys.executable,
    "-c",
    "import os, signal, sys; signal.signal(signal.SIGINT, signal.SIG_DFL);"
    " os.execv(sys.argv[1], sys.argv[1:])",
)
PATIENCE = 60  # seconds for a command, on a busy machine


def environment(bootstrap: str, home: Path) -> dict[str, str]:
    """The environment of a user without a configuration."""
    return {
        **{name: value for name, value in os.environ.items() if name != "AIOKAFKA_LITE_PROFILE"},
        "AIOKAFKA_LITE_BOOTSTRAP_SERVERS": bootstrap,
        "AIOKAFKA_LITE_CONFIG": str(home / "config.toml"),
    }


class Shell:
    """Runs commands against one cluster.

    Args:
        bootstrap: The cluster's address.
        home: Where the configuration is.
    """

    def __init__(self, bootstrap: str, home: Path) -> None:
        self.environment = environment(bootstrap, home)

    def run(self, *arguments: str, stdin: bytes = b"") -> "subprocess.CompletedProcess[bytes]":
        """Run a command to its end."""
        return subprocess.run(
            [*COMMAND, *arguments],
            input=stdin,
            capture_output=True,
            timeout=PATIENCE,
            env=self.environment,
        )

    def ok(self, *arguments: str, stdin: bytes = b"") -> bytes:
        """Run a command that has to succeed silently, and return its output."""
        done = self.run(*arguments, stdin=stdin)
        assert (done.returncode, done.stderr) == (0, b"")
        return done.stdout

    def fails(self, status: int, *arguments: str, stdin: bytes = b"") -> str:
        """Run a command that has to fail, and return its output on stderr."""
        done = self.run(*arguments, stdin=stdin)
        assert done.returncode == status, done
        return done.stderr.decode()

    def start(self, *arguments: str, **options: Any) -> "subprocess.Popen[bytes]":
        """Start a command."""
        return subprocess.Popen([*LISTENING, *COMMAND, *arguments], env=self.environment, **options)

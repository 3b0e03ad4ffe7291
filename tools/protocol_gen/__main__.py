"""Generates aiokafka_lite/protocol from the schemas in Kafka's jars."""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

from tools.protocol_gen import jars
from tools.protocol_gen.emit_module import by_module, emit_api_keys, emit_api_modules, emit_module
from tools.protocol_gen.merge import messages
from tools.protocol_gen.releases import emit_releases
from tools.protocol_gen.schema import Message

ROOT = Path(__file__).resolve().parents[2]
PROTOCOL = ROOT / "aiokafka_lite" / "protocol"
TABLES = ("api_keys.py", "api_modules.py", "releases.py")
MESSAGES_HEAD = '"""Kafka\'s messages, generated from its schemas: one module per API."""\n'


def generate() -> dict[str, str]:
    """All generated files, unformatted, by path below `aiokafka_lite/protocol`."""
    files = {"messages/__init__.py": MESSAGES_HEAD}
    apis: list[Message] = []
    for name, members in by_module(messages()).items():
        files[f"messages/{name}.py"] = emit_module(members)
        apis += [message for message in members if message.kind == "request"]
    files["api_keys.py"] = emit_api_keys(_all_api_keys(), apis[0].releases)
    files["api_modules.py"] = emit_api_modules(apis)
    return files


def _all_api_keys() -> dict[int, str]:
    keys: dict[int, str] = {}
    for release in reversed(jars.RELEASES):
        for name, schema in jars.read_schemas(release).items():
            if schema["type"] == "request":
                keys[schema["apiKey"]] = name.removesuffix("Request")
    return keys


def write_formatted(files: dict[str, str], target: Path) -> None:
    for name, source in files.items():
        path = target / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(source)
    ruff = [sys.executable, "-m", "ruff"]
    config = ["--config", str(ROOT / "pyproject.toml")]
    paths = [str(target / name) for name in files]
    for command in (["check", "--fix-only", "-q"], ["format", "-q"]):
        subprocess.run([*ruff, *command, *config, *paths], check=True)


def compare(fresh: Path, committed: Path) -> list[str]:
    """Paths of files that differ; the table of releases only if it was generated."""

    def listing(root: Path) -> dict[str, str]:
        found = [*root.glob("messages/*.py"), *(root / name for name in TABLES)]
        return {str(path.relative_to(root)): path.read_text() for path in found if path.exists()}

    old, new = listing(committed), listing(fresh)
    if "releases.py" not in new:
        old.pop("releases.py", None)
    return sorted(name for name in old.keys() | new.keys() if old.get(name) != new.get(name))


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.protocol_gen", description=__doc__)
    parser.add_argument(
        "--check", action="store_true", help="only report stale files; write nothing"
    )
    parser.add_argument(
        "--if-available",
        action="store_true",
        help="skip with a warning if the jars are not available",
    )
    parser.add_argument(
        "--releases",
        action="store_true",
        help="also regenerate the table of API versions by release (30 jars; needs Java)",
    )
    options = parser.parse_args()
    try:
        files = generate()
        if options.releases:
            files["releases.py"] = emit_releases({api.api_key for api in messages()} - {-1})
    except jars.JarsUnavailable as error:
        if not options.if_available:
            raise SystemExit(f"protocol_gen: {error}") from error
        print(f"\n*** protocol_gen SKIPPED, nothing was checked: {error} ***\n", file=sys.stderr)
        return 0
    with tempfile.TemporaryDirectory() as folder:
        fresh = Path(folder)
        write_formatted(files, fresh)
        stale = compare(fresh, PROTOCOL)
        if options.check:
            for name in stale:
                print(f"stale: aiokafka_lite/protocol/{name}", file=sys.stderr)
            print(f"protocol_gen: {len(files)} files, {len(stale)} stale")
            return 1 if stale else 0
        for name in stale:
            path = PROTOCOL / name
            if (fresh / name).exists():
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text((fresh / name).read_text())
            else:
                path.unlink()
    print(f"protocol_gen: {len(files)} files, {len(stale)} rewritten")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

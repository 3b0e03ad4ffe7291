"""The pages of the site that are not files of docs/: the API, the examples, the changelog."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]

MOVED: Final = {
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security-policy.md",
    "README.md": "overview.md",  # the site begins with the table of docs/README.md
    "benchmarks/README.md": "benchmarks.md",
    "benchmarks/RESULTS.md": "benchmark-results.md",
    "examples": "examples/README.md",
}
"""Files and folders outside of docs/, and the pages that show them."""

API: Final = {
    "producer": ("Producer", ["aiokafka_lite.AIOKafkaProducer"]),
    "consumer": (
        "Consumer",
        ["aiokafka_lite.AIOKafkaConsumer", "aiokafka_lite.SubscriptionPattern"],
    ),
    "share-consumer": (
        "Share consumer",
        [
            "aiokafka_lite.AIOKafkaShareConsumer",
            "aiokafka_lite.ShareRecord",
            "aiokafka_lite.AcknowledgeType",
        ],
    ),
    "transactions": ("Exactly once", ["aiokafka_lite.exactly_once"]),
    "admin": ("Admin client", ["aiokafka_lite.AIOKafkaAdminClient"]),
    "admin-types": ("Arguments and results of the admin client", ["aiokafka_lite.admin"]),
    "client": ("Client", ["aiokafka_lite.client"]),
    "structs": ("Records, offsets and other structs", ["aiokafka_lite.structs"]),
    "errors": ("Exceptions", ["aiokafka_lite.errors"]),
    "abc": ("Interfaces to implement", ["aiokafka_lite.abc"]),
    "security": (
        "TLS context and token providers",
        ["aiokafka_lite.helpers", "aiokafka_lite.oauth"],
    ),
    "partitioning": (
        "Partitioners and assignors",
        ["aiokafka_lite.partitioner", "aiokafka_lite.coordinator.assignors.abstract"],
    ),
    "observability": (
        "Prometheus and OpenTelemetry",
        ["aiokafka_lite.prometheus", "aiokafka_lite.otel"],
    ),
    "testing": ("Embedded broker", ["aiokafka_lite.testing"]),
    "alias": (
        "The name aiokafka",
        ["aiokafka_lite.install_as_aiokafka", "aiokafka_lite.uninstall_as_aiokafka"],
    ),
}
"""Page, title, and the objects that it documents."""


def place(path: str) -> str | None:
    """The page that shows a file or folder of the repository, None if there is none."""
    if path in MOVED:
        return MOVED[path]
    if path.startswith("docs/"):
        return path.removeprefix("docs/")
    if path.startswith("examples/"):
        return f"{path}.md" if (ROOT / path).is_file() else "examples/README.md"
    return None


def _example(path: Path) -> str:
    text = path.read_text()
    language = {".py": "python", ".json": "json", ".toml": "toml"}.get(path.suffix, "text")
    return f"# {path.relative_to(ROOT / 'examples')}\n\n````{language}\n{text.rstrip()}\n````\n"


def _examples() -> dict[str, str]:
    files = sorted(
        path
        for path in (ROOT / "examples").rglob("*")
        if path.suffix in (".py", ".json", ".toml", ".yaml", ".yml", ".ipynb")
    )
    rows = ["# Examples", "", "| program | |", "|---|---|"]
    pages = {}
    for path in files:
        name = path.relative_to(ROOT).as_posix()
        pages[f"{name}.md"] = _example(path)
        summary = ""
        if path.suffix == ".py":
            summary = (ast.get_docstring(ast.parse(path.read_text())) or "").partition("\n")[0]
        shown = name.removeprefix("examples/")
        rows.append(f"| [{shown}]({shown}.md) | {summary} |")
    return {"examples/README.md": "\n".join(rows) + "\n", **pages}


def _api() -> dict[str, str]:
    pages = {}
    rows = ["# API reference", "", "Generated from the docstrings.", "", "| | |", "|---|---|"]
    for page, (title, names) in API.items():
        shown = ", ".join(f"`{name}`" for name in names)
        rows.append(f"| [{title}]({page}.md) | {shown} |")
        body = "\n".join(f"::: {name}\n" for name in names)
        pages[f"api/{page}.md"] = f"# {title}\n\n{body}"
    return {"api/README.md": "\n".join(rows) + "\n", **pages}


def added_pages() -> dict[str, tuple[str, str]]:
    """By page: its text, and the repository's file that its links are relative to."""
    pages = {page: (text, f"docs/{page}") for page, text in {**_api(), **_examples()}.items()}
    for source, page in MOVED.items():
        if (ROOT / source).is_file():
            pages[page] = ((ROOT / source).read_text(), source)
    return pages

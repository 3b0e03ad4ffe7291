"""The page, section by section."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Iterator

from aiokafka_lite.protocol.registry import API_MODULES, ApiKey, api_name
from aiokafka_lite.protocol.versions import RELEASES
from aiokafka_lite.testing import FakeCluster
from aiokafka_lite.testing.apis import SERVED
from aiokafka_lite.testing.apis.unserved import NOT_OFFERED, REFUSED
from aiokafka_lite.testing.features import Features
from aiokafka_lite.testing.release_profile import offered
from tests.conformance.differences import DIFFERENCES
from tools.broker_docs.effects import broker_configs_read, topic_configs_read

HEAD = """# The embedded broker

This reference is generated from the broker's code by `python -m tools.broker_docs`; `make lint`
checks that it is up to date. To learn how to use the broker, see [Testing](testing.md).
"""


def page() -> str:
    """The whole page as Markdown."""
    sections = [
        HEAD,
        _section("APIs", _apis()),
        _section("Releases", _releases()),
        _section("Arguments of `FakeCluster`", _arguments(FakeCluster, FakeCluster.__doc__)),
        _section("Methods and attributes of `FakeCluster`", _methods()),
        _section(
            "Arguments of `control`",
            _arguments(FakeCluster.control, inspect.getdoc(FakeCluster.control)),
        ),
        _section("Configurations with an effect", _configs()),
        _section("Differences from Kafka", _differences()),
    ]
    return "\n".join(sections)


def _section(title: str, lines: Iterable[str]) -> str:
    return "\n".join([f"## {title}", "", *lines, ""])


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> Iterator[str]:
    yield f"| {' | '.join(head)} |"
    yield f"|{'|'.join('---' for _ in head)}|"
    for row in rows:
        yield f"| {' | '.join(cell.replace('|', '&#124;') for cell in row)} |"


def _range(first: int, last: int) -> str:
    return str(first) if first == last else f"{first}-{last}"


def _apis() -> Iterator[str]:
    yield "For older clients, the broker also serves versions that Kafka 4 dropped."
    yield ""
    rows = []
    for key in map(ApiKey, sorted(API_MODULES)):
        versions, state = "", "served"
        if key in SERVED:
            versions = _range(*SERVED[key])
        if key in REFUSED:
            state = f"refused: {REFUSED[key]}"
        elif key in NOT_OFFERED:
            state = f"not offered: {NOT_OFFERED[key]}"
        rows.append((str(int(key)), api_name(key), versions, state))
    yield from _table(("key", "API", "versions", "state"), rows)
    yield ""
    yield "ApiVersions does not list an API that is not offered, and a request for it closes the"
    yield "connection, as on a real broker. The table omits APIs between brokers and controllers:"
    yield "none is offered."


def _releases() -> Iterator[str]:
    yield '`FakeCluster(version="2.8")` offers what that release offered and nothing newer.'
    yield "Releases before 3.3 pose as running on ZooKeeper. The last column lists the release's"
    yield "client APIs that are missing. Configurations and their defaults are those of 4.4 in"
    yield "every release."
    yield ""
    rows = []
    for release, ranges in RELEASES.items():
        served = offered(SERVED, release, {})
        features = Features(release)
        levels = ", ".join(f"{name} {level}" for name, level in features.finalized.items())
        kraft_only = {ApiKey.DESCRIBE_QUORUM, ApiKey.UNREGISTER_BROKER}
        missing = [
            api_name(key)
            for key in ranges
            if key not in served and (features.on_kraft or key not in kraft_only)
        ]
        rows.append((release, str(len(served)), levels or "none", ", ".join(missing) or "nothing"))
    yield from _table(("release", "APIs", "finalized features", "lacks"), rows)


def _arguments(function: object, documentation: str | None) -> Iterator[str]:
    """The `Args` section of a docstring as a table."""
    text = inspect.cleandoc(documentation or "")
    found = re.search(r"^Args:\n(.*?)(?=^\S|\Z)", text, re.DOTALL | re.MULTILINE)
    if found is None:
        raise ValueError(f"{function!r} has no Args section")
    rows = []
    for entry in re.split(r"\n(?= {4}\S)", found[1].rstrip()):
        name, _, about = entry.strip().partition(": ")
        rows.append((f"`{name}`", _plain(about)))
    yield from _table(("argument", "meaning"), rows)


def _methods() -> Iterator[str]:
    rows = []
    for name, member in inspect.getmembers(FakeCluster):
        if name.startswith("_"):
            continue
        function = member.fget if isinstance(member, property) else member
        first = (inspect.getdoc(function) or "").partition("\n\n")[0]
        called = name if isinstance(member, property) else f"{name}()"
        rows.append((f"`{called}`", _plain(first)))
    yield from _table(("name", "meaning"), rows)


def _configs() -> Iterator[str]:
    yield "The broker checks, stores and returns every configuration of Kafka 4.4. Those with an"
    yield "effect:"
    yield ""
    yield f"Topics: {', '.join(f'`{name}`' for name in topic_configs_read())}."
    yield ""
    yield (
        f"Brokers: {', '.join(f'`{name}`' for name in broker_configs_read())}, and the defaults of"
        " topic and group configurations."
    )


def _differences() -> Iterator[str]:
    yield "The suite in `tests/conformance` sends the same requests to both and compares the"
    yield "responses. These are the only differences, all intended:"
    yield ""
    rows = [(f"`{scenario}`", f"`{path}`", why) for scenario, path, why in DIFFERENCES]
    yield from _table(("scenario", "field of the response", "reason"), rows)


def _plain(text: str) -> str:
    """The text of a docstring as one line of Markdown."""
    return " ".join(text.split())

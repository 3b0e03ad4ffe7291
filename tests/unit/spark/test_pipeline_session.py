"""The settings that a stream finds in a session that was not opened for its pipeline."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from aiokafka_lite.spark.pipeline import Pipeline, Sink, Source, runner

STATELESS = "spark.sql.adaptive.streaming.stateless.enabled"
EXACTLY_ONCE = {"deliveryGuarantee": "exactly_once"}


class Conf(dict[str, str]):
    """A session's settings."""

    def set(self, name: str, value: str) -> None:
        self[name] = value

    def unset(self, name: str) -> None:
        del self[name]


def found_at_start(
    monkeypatch: pytest.MonkeyPatch, session: Any, pipeline: Pipeline, error: bool = False
) -> dict[str, str]:
    """The settings of the session at the moment at which a stream copies them."""
    found: dict[str, str] = {}

    def start() -> None:
        found.update(session.conf)
        if error:
            raise RuntimeError("no checkpoint")

    monkeypatch.setattr(runner, "build", lambda *_: None)
    writer = SimpleNamespace(start=start)
    monkeypatch.setattr(runner, "stream_writer", lambda *_, **__: writer)
    if error:
        with pytest.raises(RuntimeError):
            runner.start(pipeline, session)
    else:
        runner.start(pipeline, session)
    return found


def pipeline(options: dict[str, str], conf: dict[str, str]) -> Pipeline:
    sink = Sink("kafka_lite", options, checkpoint="any")
    return Pipeline(name="any", source=Source("rate", {}), sink=sink, conf=conf)


@pytest.mark.parametrize(
    ("options", "conf", "expected"),
    [
        (EXACTLY_ONCE, {}, "false"),
        (EXACTLY_ONCE, {STATELESS: "true"}, "true"),  # as configured
        ({}, {}, None),
    ],
)
@pytest.mark.parametrize("before", [{STATELESS: "true"}, {}], ids=["known", "unknown"])
@pytest.mark.parametrize("error", [False, True])
def test_a_replayed_batch_keeps_its_tasks_for_exactly_once(
    monkeypatch: pytest.MonkeyPatch,
    options: dict[str, str],
    conf: dict[str, str],
    expected: str | None,
    error: bool,
    before: dict[str, str],
) -> None:
    session = cast(Any, SimpleNamespace(conf=Conf(before)))
    found = found_at_start(monkeypatch, session, pipeline(options, conf), error)
    assert found == ({STATELESS: expected} if expected else before)
    assert session.conf == before, "the session is as it was"

"""Spark's report of a batch, and the lag computed from it."""

from aiokafka_lite.spark.progress import Lag, Progress

REPORT = {
    "id": "0b5f",
    "runId": "77aa",
    "name": "orders",
    "timestamp": "2026-11-21T10:00:00.000Z",
    "batchId": 7,
    "batchDuration": 2500,
    "durationMs": {"triggerExecution": 2000, "addBatch": 1500},
    "eventTime": {"watermark": "2026-11-21T09:59:00.000Z"},
    "sources": [
        {
            "description": "kafka_lite",
            "startOffset": {"orders": {"0": 0, "1": 0}},
            "endOffset": {"orders": {"0": 90, "1": 50}},
            "latestOffset": {"orders": {"0": 100, "1": 150}},
            "numInputRows": 140,
        }
    ],
    "sink": {"description": "kafka_lite", "numOutputRows": -1},
}


def test_a_batch_is_read_from_sparks_report():
    assert Progress.parse(REPORT) == Progress(
        query="orders",
        run_id="77aa",
        batch_id=7,
        rows=140,
        rows_written=None,
        seconds=2.0,
        lag=Lag(total=110, largest=100, smallest=10, average=55.0),
        watermark="2026-11-21T09:59:00.000Z",
        timestamp="2026-11-21T10:00:00.000Z",
    )


def test_the_line_contains_rows_time_rate_lag_and_watermark():
    line = Progress.parse(REPORT).line()
    assert line == (
        "batch 7   140 rows   2.0 s   70 rows/s   lag 110 (at most 100 a partition)"
        "   watermark 2026-11-21T09:59:00.000Z"
    )


def test_a_source_that_is_not_kafka_has_no_lag():
    rate = {"startOffset": 0, "endOffset": 5, "latestOffset": 9, "numInputRows": 50}
    files = {"endOffset": {"logOffset": 3}, "latestOffset": None, "numInputRows": 1}
    progress = Progress.parse({"id": "x", "batchId": 0, "sources": [rate, files]})
    assert (progress.query, progress.rows, progress.lag) == ("x", 51, None)
    assert "lag" not in progress.line()


def test_unread_and_newer_partitions_do_not_count_as_lag():
    source = {
        "endOffset": {"orders": {"0": 120}},
        "latestOffset": {"orders": {"0": 100, "1": 40}, "payments": {"0": 9}},
        "numInputRows": 1,
    }
    assert Progress.parse({"sources": [source]}).lag == Lag(0, 0, 0, 0.0)


def test_an_empty_report_is_an_empty_batch():
    progress = Progress.parse({})
    assert (progress.rows, progress.seconds, progress.rows_per_second) == (0, 0.0, 0.0)


def test_the_rows_reported_by_the_sink_are_used():
    assert Progress.parse({"sink": {"numOutputRows": 12}}).rows_written == 12

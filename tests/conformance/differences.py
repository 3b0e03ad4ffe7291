"""Where the embedded broker answers otherwise than Kafka, and why it may.

An entry is (scenario, path, why): the name of the test function, with its parameters in brackets
if it has any; the path as a failure tells it, `*` for anything; and the reason. An entry that
no longer occurs fails its scenario.
"""

from typing import Final

__all__ = ["DIFFERENCES"]

DIFFERENCES: Final[list[tuple[str, str, str]]] = [
    (
        "test_metadata_and_versions",
        "ApiVersions v*/api_keys/*/min_version",
        "the embedded broker also serves versions that Kafka 4 dropped, for older clients",
    ),
    (
        "test_metadata_and_versions",
        "ApiVersions v*/api_keys/94",
        "UnregisterController is about KRaft's controllers, and the embedded broker has none",
    ),
    *(
        (
            "test_metadata_and_versions",
            f"ApiVersions v*/finalized_features/{name}",
            "the embedded broker has no share or streams groups yet, and says so",
        )
        for name in ("share.version", "streams.version")
    ),
    (
        "test_describing_all_of_a_broker",
        "names and types/controlled.shutdown.retry.backoff.ms",
        "an unknown setting that the harness gives its brokers; Kafka tells of those too",
    ),
    (
        "test_documentation",
        "DescribeConfigs v4/results/*/configs/retention.ms/documentation",
        "the documentation of settings is Kafka's own text, and not repeated here",
    ),
]

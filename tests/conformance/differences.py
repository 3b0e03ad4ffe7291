"""The permitted differences between the embedded broker and Kafka, with their reasons.

An entry is (scenario, path, reason). The scenario is the name of the test function, with its
parameters in brackets if it has any; the path is as in a failure, with `*` for anything. An entry
that no longer occurs fails its scenario.
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
        "ApiVersions v*/finalized_features/streams.version",
        "the embedded broker has no streams groups",
    ),
    (
        "test_describing_all_of_a_broker",
        "names and types/controlled.shutdown.retry.backoff.ms",
        "an unknown setting that the test harness gives its brokers; Kafka returns it too",
    ),
    (
        "test_documentation",
        "DescribeConfigs v4/results/*/configs/retention.ms/documentation",
        "the documentation of settings is Kafka's text, which is not copied",
    ),
]

"""Where the embedded broker answers otherwise than Kafka, and why it may.

An entry is (scenario, path, why): the name of the test function, with its parameters in brackets
if it has any; the path as a failure tells it, ``*`` for anything; and the reason. An entry that
no longer occurs fails its scenario.
"""

from typing import Final

__all__ = ["DIFFERENCES"]

OTHERWISE_CONFIGURED: Final = (
    "the harness gives its real brokers other settings than Kafka's defaults"
)

DIFFERENCES: Final[list[tuple[str, str, str]]] = [
    (
        "test_creating_and_deleting",
        "CreateTopics v5/topics/*/configs/file.delete.delay.ms/*",
        OTHERWISE_CONFIGURED,
    ),
    (
        "test_creating_and_deleting",
        "CreateTopics v5/topics/*/configs/retention.ms/*",
        OTHERWISE_CONFIGURED,
    ),
    (
        "test_metadata_and_versions",
        "ApiVersions v*/api_keys/*/min_version",
        "the embedded broker also serves versions that Kafka 4 dropped, for older clients",
    ),
    (
        "test_metadata_and_versions",
        "ApiVersions v*/api_keys/*",
        "APIs that the embedded broker does not serve",
    ),
    (
        "test_metadata_and_versions",
        "ApiVersions v*/*_features/*",
        "features that the embedded broker does not have",
    ),
    *(
        (
            "test_metadata_and_versions",
            f"Metadata v10/{field}",
            "Kafka's answer to a request that is wrong as a whole tells nothing of the cluster",
        )
        for field in ("cluster_id", "controller_id")
    ),
    ("test_admin", "CreateTopics v*/topics/*/configs/*", OTHERWISE_CONFIGURED),
    (
        "test_describing_all_of_a_broker",
        "names and types/controlled.shutdown.retry.backoff.ms",
        "an unknown setting that the harness gives its brokers; Kafka tells of those too",
    ),
]

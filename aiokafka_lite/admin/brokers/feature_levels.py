"""Describes the features of a cluster, and changes their finalized levels.

Source: ApiVersionsRequest.json v3-v5, UpdateFeaturesRequest.json v0-v2, KIP-584, KIP-1022.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from aiokafka_lite._arguments import INT32, flag, whole, wire_string
from aiokafka_lite._version import __version__
from aiokafka_lite.admin.core.dispatcher import Dispatcher
from aiokafka_lite.admin.core.item_errors import only_controller_errors
from aiokafka_lite.admin.core.item_outcomes import Outcomes
from aiokafka_lite.admin.core.results import Results
from aiokafka_lite.cluster.retry import ANY, CONTROLLER, ToNode, raise_error_code
from aiokafka_lite.errors import IllegalArgumentError
from aiokafka_lite.protocol.messages.api_versions import ApiVersionsRequest
from aiokafka_lite.protocol.messages.update_features import (
    FeatureUpdateKey,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)

__all__ = [
    "FeatureLevels",
    "FeatureMetadata",
    "FeatureUpdate",
    "FeatureUpgradeType",
    "describe_features",
    "update_features",
]

_SOFTWARE: Final = "aiokafka-lite"
_FEATURES_FROM: Final = 3
"""The version of ApiVersions that lists features."""
_TYPES_FROM: Final = 1
"""The version of UpdateFeatures that has types of upgrades, and validate_only."""
_NO_RESULTS_FROM: Final = 2
"""The version of UpdateFeatures without a result for each feature: all or none are updated."""


class FeatureUpgradeType(enum.IntEnum):
    """How the level of a feature may change; the values are Kafka's."""

    UPGRADE = 1
    """To a higher level only."""
    SAFE_DOWNGRADE = 2
    """Also to a lower level, if no metadata is lost."""
    UNSAFE_DOWNGRADE = 3
    """Also to a lower level if metadata is lost."""


@dataclass(frozen=True, slots=True)
class FeatureLevels:
    """A range of the levels of a feature, both ends included."""

    min_level: int
    max_level: int


@dataclass(frozen=True, slots=True)
class FeatureMetadata:
    """The features of a cluster.

    Attributes:
        finalized: The levels that the cluster uses, by feature.
        finalized_epoch: Grows when `finalized` changes; None if the cluster has no features.
        supported: The levels that the asked broker supports, by feature.
    """

    finalized: Mapping[str, FeatureLevels]
    finalized_epoch: int | None
    supported: Mapping[str, FeatureLevels]


@dataclass(frozen=True, slots=True)
class FeatureUpdate:
    """A change of the level of a feature.

    Args:
        max_level: The new level; 0 removes the feature, which only a downgrade can.
        upgrade_type: How the level may change.

    Raises:
        TypeError: An argument has the wrong type.
        IllegalArgumentError: The level is out of range, or 0 with UPGRADE.
    """

    max_level: int
    upgrade_type: FeatureUpgradeType = FeatureUpgradeType.UPGRADE

    def __post_init__(self) -> None:
        whole("max_level", self.max_level, most=32767)
        if not isinstance(self.upgrade_type, FeatureUpgradeType):
            raise TypeError(
                f"`upgrade_type` should be a FeatureUpgradeType, not {self.upgrade_type!r}"
            )
        if self.max_level == 0 and self.upgrade_type is FeatureUpgradeType.UPGRADE:
            raise IllegalArgumentError(
                "`max_level` 0 removes a feature: `upgrade_type` should be a downgrade"
            )


async def describe_features(
    dispatcher: Dispatcher, node_id: int | None, timeout_ms: float | None
) -> FeatureMetadata:
    """See `AIOKafkaAdminClient.describe_features`."""
    deadline = dispatcher.deadline(timeout_ms)
    if node_id is not None:
        node_id = whole("node_id", node_id, most=INT32)
    answer = await dispatcher.ask(
        ApiVersionsRequest(_SOFTWARE, __version__),
        ANY if node_id is None else ToNode(node_id),
        deadline,
        oldest=_FEATURES_FROM,
        feature="Describing features",
    )
    epoch = answer.finalized_features_epoch
    return FeatureMetadata(
        {
            each.name: FeatureLevels(each.min_version_level, each.max_version_level)
            for each in answer.finalized_features
        },
        None if epoch < 0 else epoch,
        {
            each.name: FeatureLevels(each.min_version, each.max_version)
            for each in answer.supported_features
        },
    )


async def update_features(
    dispatcher: Dispatcher,
    updates: Mapping[str, FeatureUpdate],
    timeout_ms: float | None,
    *,
    validate_only: bool,
) -> Results[str, None]:
    """See `AIOKafkaAdminClient.update_features`."""
    deadline = dispatcher.deadline(timeout_ms)
    flag("validate_only", validate_only)
    wanted = _updates(updates)
    oldest, feature = 0, "Updating features"
    if any(each.upgrade_type is FeatureUpgradeType.UNSAFE_DOWNGRADE for each in wanted.values()):
        oldest, feature = _TYPES_FROM, "An unsafe downgrade of a feature"
    if validate_only:
        oldest, feature = _TYPES_FROM, "validate_only of update_features"
    outcomes: Outcomes[str, None] = Outcomes(
        wanted, "feature {!r}".format, retriable=only_controller_errors(False)
    )
    asked_in = 0

    def build(version: int, pending: list[str]) -> UpdateFeaturesRequest:
        nonlocal asked_in
        asked_in = version
        return UpdateFeaturesRequest(
            timeout_ms=dispatcher.broker_timeout_ms(deadline),
            feature_updates=[_update(name, wanted[name], version) for name in pending],
            validate_only=validate_only,
        )

    def read(response: UpdateFeaturesResponse, outcomes: Outcomes[str, None]) -> None:
        raise_error_code(response)
        if asked_in >= _NO_RESULTS_FROM and not response.results:
            for name in outcomes.pending:
                outcomes.on_value(name, None)
        for each in response.results:
            if not outcomes.on_code(each.feature, each.error_code, each.error_message):
                outcomes.on_value(each.feature, None)

    return await dispatcher.settle(
        outcomes,
        UpdateFeaturesRequest,
        build,
        read,
        CONTROLLER,
        deadline,
        oldest=oldest,
        feature=feature,
    )


def _update(name: str, update: FeatureUpdate, version: int) -> FeatureUpdateKey:
    if version < _TYPES_FROM:
        downgrade = update.upgrade_type is not FeatureUpgradeType.UPGRADE
        return FeatureUpdateKey(name, update.max_level, allow_downgrade=downgrade)
    return FeatureUpdateKey(name, update.max_level, upgrade_type=update.upgrade_type)


def _updates(given: object) -> dict[str, FeatureUpdate]:
    if not isinstance(given, Mapping):
        raise TypeError(f"`updates` should be a mapping of FeatureUpdate objects, not {given!r}")
    wanted: dict[str, FeatureUpdate] = {}
    for name, update in given.items():
        if not wire_string("feature", name):
            raise IllegalArgumentError("`updates`: the name of a feature is empty")
        if not isinstance(update, FeatureUpdate):
            raise TypeError(f"update of {name!r} should be a FeatureUpdate, not {update!r}")
        wanted[name] = update
    if not wanted:
        raise IllegalArgumentError("`updates` is empty")
    return wanted

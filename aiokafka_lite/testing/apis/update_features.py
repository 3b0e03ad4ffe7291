"""UpdateFeatures, v0-v2: finalize feature levels (KIP-584), all or none.

v1 adds `validate_only` and the type of a downgrade; v2 has no results for single features.
"""

from typing import Final

from aiokafka_lite.errors import BrokerResponseError, InvalidUpdateVersionError
from aiokafka_lite.protocol.messages.update_features import (
    FeatureUpdateKey,
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from aiokafka_lite.testing.context import RequestContext
from aiokafka_lite.testing.security.acl_table import CLUSTER_NAME, Operation, Resource
from aiokafka_lite.testing.wording import wording

_UPGRADE: Final = 1
_SAFE_DOWNGRADE: Final = 2
_UNSAFE_DOWNGRADE: Final = 3
_NO_RESULTS_SINCE: Final = 2


def handle(request: UpdateFeaturesRequest, context: RequestContext) -> UpdateFeaturesResponse:
    features = context.state.features
    try:
        context.check()
        context.authorize(Operation.ALTER, Resource.CLUSTER, CLUSTER_NAME)
        for update in request.feature_updates:
            features.check_update(
                update.feature, update.max_version_level, may_lower=_may_lower(update, context)
            )
    except BrokerResponseError as error:
        return UpdateFeaturesResponse(error_code=error.errno, error_message=wording(error))
    if not request.validate_only:
        for update in request.feature_updates:
            features.update(update.feature, update.max_version_level)
    reported = request.feature_updates if context.version < _NO_RESULTS_SINCE else []
    return UpdateFeaturesResponse(
        error_message=None,
        results=[UpdatableFeatureResult(feature=update.feature) for update in reported],
    )


def _may_lower(update: FeatureUpdateKey, context: RequestContext) -> bool:
    if context.version == 0:
        return update.allow_downgrade
    if update.upgrade_type not in (_UPGRADE, _SAFE_DOWNGRADE, _UNSAFE_DOWNGRADE):
        raise InvalidUpdateVersionError(
            f"Invalid update version {update.max_version_level} for feature {update.feature}. The"
            " controller does not support the given upgrade type."
        )
    return update.upgrade_type != _UPGRADE

"""ApiVersions, v0-v5: the APIs that this broker offers, and their versions.

- an unsupported version gets a v0 response with UNSUPPORTED_VERSION and only the versions of
  ApiVersions (KIP-511); the dispatcher calls `unsupported_version` for it;
- v3 checks the client's software name and version (KIP-511), and returns features (KIP-584);
  only v4 includes those with minimum level 0 (KIP-1022);
- v5 checks that the client has reached the intended cluster and broker (KIP-1242).
"""

import re
from typing import Final

from aiokafka_lite.errors import (
    BrokerResponseError,
    InvalidRequestError,
    RebootstrapRequiredError,
    UnsupportedVersionError,
)
from aiokafka_lite.protocol.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)
from aiokafka_lite.protocol.registry import ApiKey
from aiokafka_lite.testing.client_session import Session
from aiokafka_lite.testing.context import ApiRanges, RequestContext
from aiokafka_lite.testing.release_profile import announced

_LOWEST_LEVEL_0_SINCE: Final = 4
_SOFTWARE_NAME: Final = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


def handle(request: ApiVersionsRequest, context: RequestContext) -> ApiVersionsResponse:
    try:
        context.check()
        _check_software(request, context.version, context.session)
        _check_destination(request, context)
    except UnsupportedVersionError:  # injected by a fault
        return unsupported_version(context.offered, ApiKey.API_VERSIONS)
    except BrokerResponseError as error:
        return ApiVersionsResponse(error_code=error.errno)
    features = context.state.features
    return ApiVersionsResponse(
        api_keys=_entries(announced(context.offered, features.release)),
        supported_features=[
            SupportedFeatureKey(name=name, min_version=levels.lowest, max_version=levels.highest)
            for name, levels in features.supported.items()
            if levels.lowest or context.version >= _LOWEST_LEVEL_0_SINCE
        ],
        finalized_features_epoch=features.epoch,
        finalized_features=[
            FinalizedFeatureKey(name=name, max_version_level=level, min_version_level=level)
            for name, level in features.finalized.items()
        ],
    )


def unsupported_version(offered: ApiRanges, api_key: int) -> ApiVersionsResponse:
    """Return the response, to be sent in v0, to an unsupported version of the request."""
    return ApiVersionsResponse(
        error_code=UnsupportedVersionError.errno,
        api_keys=_entries({api_key: offered[api_key]}),
    )


def _entries(ranges: ApiRanges) -> list[ApiVersion]:
    return [
        ApiVersion(api_key=key, min_version=first, max_version=last)
        for key, (first, last) in sorted(ranges.items())
    ]


def _check_software(request: ApiVersionsRequest, version: int, session: Session) -> None:
    if version < 3:
        return
    for value in (request.client_software_name, request.client_software_version):
        if not _SOFTWARE_NAME.fullmatch(value):
            raise InvalidRequestError(f"{value!r} is not a valid client software name or version")
    session.software = request.client_software_name, request.client_software_version


def _check_destination(request: ApiVersionsRequest, context: RequestContext) -> None:
    if context.version < 5 or (request.cluster_id is None and request.node_id == -1):
        return
    if request.cluster_id is None or request.node_id == -1:
        raise InvalidRequestError("cluster id and node id must be set together")
    if (request.cluster_id, request.node_id) != (context.state.cluster_id, context.node_id):
        raise RebootstrapRequiredError(
            f"the request is for broker {request.node_id} of cluster {request.cluster_id}"
        )

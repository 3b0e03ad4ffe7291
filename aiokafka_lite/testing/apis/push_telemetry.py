"""PushTelemetry, v0: metrics of a client (KIP-714), which `FakeCluster.pushed_metrics` returns."""

from aiokafka_lite.errors import (
    BrokerResponseError,
    CorruptRecordException,
    InvalidRecordError,
    InvalidRequestError,
)
from aiokafka_lite.protocol.messages.push_telemetry import (
    PushTelemetryRequest,
    PushTelemetryResponse,
)
from aiokafka_lite.protocol.primitives import ZERO_UUID
from aiokafka_lite.record.compression import decompress
from aiokafka_lite.testing.context import RequestContext
from aiokafka_lite.testing.telemetry.telemetry_instances import PushedMetrics


def handle(request: PushTelemetryRequest, context: RequestContext) -> PushTelemetryResponse:
    try:
        context.check()
        _receive(request, context)
    except BrokerResponseError as error:
        return PushTelemetryResponse(error_code=error.errno)
    return PushTelemetryResponse()


def _receive(request: PushTelemetryRequest, context: RequestContext) -> None:
    telemetry, instance_id = context.state.telemetry, request.client_instance_id
    if instance_id == ZERO_UUID:
        raise InvalidRequestError("Invalid request from client: the client instance id is missing")
    telemetry.check_push(
        instance_id,
        context.identity(),
        request.subscription_id,
        request.compression_type,
        len(request.metrics),
        context.state.broker_config.integer("telemetry.max.bytes"),
        terminating=request.terminating,
    )
    try:
        data = decompress(request.metrics, request.compression_type)
    except CorruptRecordException as error:
        raise InvalidRecordError(str(error)) from None
    telemetry.pushes.append(
        PushedMetrics(context.client_id, instance_id, request.terminating, data)
    )

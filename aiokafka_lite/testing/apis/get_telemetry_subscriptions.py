"""GetTelemetrySubscriptions, v0: which metrics the broker wants from a client (KIP-714)."""

from aiokafka_lite.errors import BrokerResponseError
from aiokafka_lite.protocol.messages.get_telemetry_subscriptions import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
)
from aiokafka_lite.protocol.primitives import ZERO_UUID
from aiokafka_lite.testing.context import RequestContext
from aiokafka_lite.testing.telemetry.telemetry_instances import ACCEPTED_CODECS


def handle(
    request: GetTelemetrySubscriptionsRequest, context: RequestContext
) -> GetTelemetrySubscriptionsResponse:
    telemetry = context.state.telemetry
    instance_id = request.client_instance_id
    if instance_id == ZERO_UUID:
        instance_id = telemetry.new_id()
    try:
        context.check()
        instance = telemetry.ask(instance_id, context.identity())
    except BrokerResponseError as error:
        return GetTelemetrySubscriptionsResponse(error_code=error.errno)
    return GetTelemetrySubscriptionsResponse(
        client_instance_id=instance_id,
        subscription_id=instance.subscription_id,
        accepted_compression_types=list(ACCEPTED_CODECS),
        push_interval_ms=instance.interval_ms,
        telemetry_max_bytes=context.state.broker_config.integer("telemetry.max.bytes"),
        delta_temporality=True,
        requested_metrics=instance.metrics,
    )

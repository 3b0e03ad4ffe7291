"""Gets a producer id: requests one until the cluster assigns it or refuses it for good.

Non-obvious:
- A cluster before 0.11 has no producer ids, and one before 2.8 may require IDEMPOTENT_WRITE. A
  producer with `enable_idempotence=True` then fails; by default it continues without an id.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from aiokafka_lite._tasks import TaskOwner
from aiokafka_lite.cluster.cluster import Cluster
from aiokafka_lite.cluster.log_name import log_extra
from aiokafka_lite.cluster.retry import ANY, call, raise_error_code
from aiokafka_lite.errors import (
    AuthenticationFailedError,
    ClusterAuthorizationFailedError,
    IllegalStateError,
    KafkaError,
    KafkaProtocolError,
    KafkaTimeoutError,
    UnsupportedVersionError,
)
from aiokafka_lite.producer.idempotence import ProducerIdentity, checked_stamp
from aiokafka_lite.producer.producer_options import ProducerOptions
from aiokafka_lite.protocol.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)

__all__ = ["IdSource"]

log = logging.getLogger(__name__)

_UNUSED_TIMEOUT_MS: Final = 2**31 - 1  # brokers ignore it without a transactional id
_UNAVAILABLE: Final = (ClusterAuthorizationFailedError, UnsupportedVersionError)


class IdSource:
    """Gets an id whenever the producer needs one.

    Args:
        cluster: Receives the requests.
        identity: Receives the id.
        options: The producer's options.
        name: The producer's name, for log lines.
        tasks: Owns the task that sends the requests.
        on_settled: Called when batches may be sent again.
        on_refused: Called before that if the cluster refuses an id to a producer that needs one.
    """

    def __init__(
        self,
        cluster: Cluster,
        identity: ProducerIdentity,
        options: ProducerOptions,
        name: str,
        tasks: TaskOwner,
        on_settled: Callable[[], None],
        on_refused: Callable[[KafkaError], None],
    ) -> None:
        self._cluster = cluster
        self._identity = identity
        self._options = options
        self._name = name
        self._tasks = tasks
        self._on_settled = on_settled
        self._on_refused = on_refused
        self._task: asyncio.Task[None] | None = None  # the running task, if any
        self.last_error: KafkaError | None = None  # why there is no id yet

    def want(self) -> None:
        """Request an id, if one is wanted and no request is under way."""
        if not self._identity.settled and self._task is None:
            self._task = self._tasks.spawn(self._get(), "get a producer id")

    def cancel(self) -> None:
        """Stop requesting an id."""
        if self._task is not None:
            self._task.cancel()

    async def _get(self) -> None:
        try:
            while not self._identity.settled:
                await self._ask()
        finally:
            self._task = None
        self._on_settled()

    async def _ask(self) -> None:
        request = InitProducerIdRequest(
            transactional_id=None, transaction_timeout_ms=_UNUSED_TIMEOUT_MS
        )
        deadline = asyncio.get_running_loop().time() + self._options.request_timeout
        try:
            response = await call(self._cluster, request, ANY, deadline, check=_check)
        except KafkaTimeoutError as error:
            self.last_error = error
            log.warning(
                "%s could not get a producer id; retrying: %s",
                self._name,
                error,
                extra=log_extra(self._name),
            )
        except (AuthenticationFailedError, KafkaProtocolError) as error:
            # A failed authentication (perhaps during a rotation of credentials) or an unreadable
            # response does not show whether the cluster has producer ids.
            self.last_error = error
            log.warning(
                "%s could not get a producer id; retrying: %s",
                self._name,
                error,
                extra=log_extra(self._name),
            )
            await asyncio.sleep(self._options.retry_backoff.delay(1))
        except IllegalStateError:
            self._identity.on_unavailable()  # the cluster is closed: nothing will be sent
        except KafkaError as error:
            if self._options.idempotence_required or not isinstance(error, _UNAVAILABLE):
                self._on_refused(error)
            else:
                expected = isinstance(error, UnsupportedVersionError)  # a broker before 0.11
                level = logging.INFO if expected else logging.WARNING
                log.log(
                    level,
                    "%s continues without idempotence: %s",
                    self._name,
                    error,
                    extra=log_extra(self._name),
                )
            self._identity.on_unavailable()
        else:
            self.last_error = None
            self._identity.on_assigned(response.producer_id, response.producer_epoch)


def _check(response: InitProducerIdResponse) -> None:
    raise_error_code(response)
    checked_stamp(response.producer_id, response.producer_epoch)

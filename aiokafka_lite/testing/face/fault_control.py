"""The part of `FakeCluster` that injects faults into requests and records every request."""

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from aiokafka_lite.testing.control import Control, Fault, SeenRequest
from aiokafka_lite.testing.face.face_base import Face

if TYPE_CHECKING:
    from aiokafka_lite.errors import BrokerResponseError
    from aiokafka_lite.testing.control import Condition, Replacement
    from aiokafka_lite.testing.tampering import Tampering

__all__ = ["Faults"]


class Faults(Face):
    """Fault injection for single requests, and the record of received requests."""

    _control: Control

    @property
    def requests(self) -> Sequence[SeenRequest]:
        """The latest requests that the brokers received, oldest first (at most 10,000)."""
        return self._in_loop(lambda: list(self._control.requests))

    def count(self, api_key: int) -> int:
        """Return how many requests of an API the brokers have received in total."""
        return self._in_loop(lambda: self._control.counts[api_key])

    def control(
        self,
        api_key: int | None = None,
        *,
        times: int | None = 1,
        node: int | None = None,
        when: "Condition | None" = None,
        after_handling: bool = False,
        delay: float = 0.0,
        error: "int | type[BrokerResponseError]" = 0,
        partitions: Iterable[tuple[str, int | None]] | None = None,
        respond_with: "Replacement | None" = None,
        edit: Callable[[Any], None] | None = None,
        tamper: "Tampering | None" = None,
        drop: bool = False,
        disconnect: bool | int = False,
    ) -> Fault:
        """Inject a fault into the next requests of an API.

        Args:
            api_key: The API; None for any.
            times: How many requests the fault affects; None for all until `Fault.remove`.
            node: Affects only requests to this broker.
            when: Affects only requests for which this returns True; called with the decoded
                request.
            after_handling: Handle the request first, then apply the fault to the response. If
                False, the fault applies before the request has any effect.
            delay: Seconds to wait before applying the options below, or before handling the
                request.
            error: An error class or code for every partition or topic of the request, or for the
                whole request if it has neither; a failed item has no effect. With
                `after_handling`, it overwrites every error code in the response.
            partitions: Only these (topic, partition) fail with `error`; partition None means the
                topic itself, in metadata and topic requests. Requests without them do not count
                as affected. Not with `after_handling`: use `edit` to change single error codes of
                a response.
            respond_with: A response that replaces the broker's, or a function that builds it
                from the request.
            edit: A function that changes the response before it is encoded.
            tamper: A function that changes the encoded response; see `testing.tampering`.
            drop: Never answer, but keep the connection open; it stays mute from then on.
            disconnect: Close the connection: True closes it instead of answering; a number closes
                it after that many bytes of the answer.

        Returns:
            The fault, with `hits`, `await struck()`, `wait()` and `remove()`.

        Raises:
            ValueError: The fault could never apply: an unknown broker or API, zero `times`, a
                negative delay, an error that no broker returns, `partitions` without `error`.
        """
        from aiokafka_lite.testing.apis import SERVED, WITH_A_PLUGIN

        if node is not None:
            self._node(node)
        if api_key is not None and api_key not in {**SERVED, **WITH_A_PLUGIN}:
            raise ValueError(f"api_key={api_key!r}: the brokers do not serve this API")
        code = error if isinstance(error, int) else getattr(error, "errno", None)
        if code is None:
            raise ValueError(f"error={error!r}: brokers never return this client-side error")
        fault = Fault(
            api_key,
            times=times,
            node=node,
            when=when,
            after_handling=after_handling,
            delay=delay,
            error=code,
            partitions=partitions,
            respond_with=respond_with,
            edit=edit,
            tamper=tamper,
            drop=drop,
            disconnect=disconnect,
        )
        self._in_loop(lambda: self._control.faults.append(fault))
        return fault

    def throttle(
        self,
        seconds: float,
        *,
        api_key: int | None = None,
        client_id: str | None = None,
        principal: str | None = None,
    ) -> None:
        """Throttle clients as if they had exceeded a quota: answer, then mute the connection.

        Args:
            seconds: How long to mute after each matching request; 0 removes the throttle.
            api_key: Matches only requests of this API.
            client_id: Matches only clients with this client id.
            principal: Matches only clients of this principal ("User:alice").

        Raises:
            ValueError: `seconds` is negative.
        """
        self._in_loop(
            lambda: self.state.throttles.set(
                seconds, api_key=api_key, client_id=client_id, principal=principal
            )
        )

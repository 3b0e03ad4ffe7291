"""The part of `FakeCluster`'s face that makes requests go wrong, and tells which were made."""

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
    """Faults of single requests, and the record of all that were seen."""

    _control: Control

    @property
    def requests(self) -> Sequence[SeenRequest]:
        """The newest requests that the brokers received, oldest first (10,000 at most)."""
        return self._in_loop(lambda: list(self._control.requests))

    def count(self, api_key: int) -> int:
        """How many requests of an API were received in all."""
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
        """Let something go wrong with the next requests of an API.

        Args:
            api_key: Which API; None for any.
            times: How many requests are struck; None for all until `Fault.remove`.
            node: Only requests to this broker.
            when: Only requests that it says True to; it gets the decoded request.
            after_handling: Let the broker do what is asked first, and then strike its answer;
                without, nothing has happened when the fault strikes.
            delay: Seconds to wait before anything below, or before the request is handled.
            error: An error, by its class or its code, for every partition or topic of the
                request, or for the whole of it where there are none; what it hits is not done.
                After handling, every error code of the response is overwritten.
            partitions: Only these (topic, partition) get the `error`; partition None stands for
                the topic itself, in metadata and topic requests. Not with `after_handling`:
                `edit` changes single codes of an answer.
            respond_with: A response to send instead of the broker's, or a function that makes it
                from the request.
            edit: A function that changes the response before it is encoded.
            tamper: A function that changes the encoded response; see `testing.tampering`.
            drop: Never answer, but stay connected; the connection is mute from then on.
            disconnect: Cut the connection: True instead of an answer, a number after so many
                bytes of it.

        Returns:
            The fault: `hits`, `await struck()`, `wait()`, `remove()`.

        Raises:
            ValueError: It could never strike, or not so: no such broker or API, no times, a
                negative delay, an error that no broker answers, partitions without an error.
        """
        from aiokafka_lite.testing.apis import SERVED

        if node is not None:
            self._node(node)
        if api_key is not None and api_key not in SERVED:
            raise ValueError(f"api_key={api_key!r}: no broker serves such an API")
        code = error if isinstance(error, int) else getattr(error, "errno", None)
        if code is None:
            raise ValueError(f"error={error!r} is a client's own: no broker answers it")
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
        """Do as if clients had exceeded a quota: answer, and then not listen for a while.

        Args:
            seconds: How long, after each request that fits; 0 ends it.
            api_key: Only requests of this API.
            client_id: Only those of clients that call themselves so.
            principal: Only those of this principal ("User:alice").

        Raises:
            ValueError: A negative time.
        """
        self._in_loop(
            lambda: self.state.throttles.set(
                seconds, api_key=api_key, client_id=client_id, principal=principal
            )
        )

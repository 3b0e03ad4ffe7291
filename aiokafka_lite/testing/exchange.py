"""One request on its way through a broker: from a frame to what answers it. No I/O.

What a real broker cannot make sense of ends the connection: an API or version that it does not
offer, or bytes that are not the request they say they are. Only ApiVersions is answered in every
version (KIP-511).
"""

from collections.abc import Callable

from aiokafka_lite.errors import KafkaProtocolError
from aiokafka_lite.protocol.framing import decode_request_header, encode_response
from aiokafka_lite.protocol.message import Request, Response
from aiokafka_lite.protocol.messages.request_header import RequestHeader
from aiokafka_lite.protocol.registry import ApiKey, api_name, request_class
from aiokafka_lite.testing.apis import handle_of
from aiokafka_lite.testing.apis.api_versions import unsupported_version
from aiokafka_lite.testing.context import Answer, ApiRanges, CloseConnection, RequestContext
from aiokafka_lite.testing.control import LARGEST_BODY_KEPT, Control, Fault, SeenRequest
from aiokafka_lite.testing.session import Session
from aiokafka_lite.testing.state import ClusterState

__all__ = ["Dispatcher", "Exchange"]


class Exchange:
    """A request, the fault that strikes it, and how to answer it.

    Attributes:
        request: the decoded request; None for an ApiVersions of a version that nobody knows.
        fault: what strikes it, if anything does.
        handle: does what was asked; may raise ``CloseConnection``.
    """

    __slots__ = ("_correlation_id", "_version", "fault", "handle", "request")

    def __init__(
        self,
        correlation_id: int,
        version: int,
        handle: Callable[[], Answer],
        request: Request | None = None,
        fault: Fault | None = None,
    ) -> None:
        self._correlation_id = correlation_id
        self._version = version
        self.handle = handle
        self.request = request
        self.fault = fault

    def encode(self, response: Response) -> bytearray:
        """The response's frame, its length first."""
        return encode_response(response, self._version, self._correlation_id)


class Dispatcher:
    """What one broker does with the frames of all its connections.

    Args:
        state: the cluster's.
        node_id: this broker.
        offered: the versions that this cluster offers, by api key.
        control: the cluster's faults.
    """

    def __init__(
        self,
        state: ClusterState,
        node_id: int,
        offered: ApiRanges,
        control: Control,
    ) -> None:
        self._state = state
        self._node_id = node_id
        self._offered = offered
        self._control = control

    def receive(self, frame: bytes | bytearray, session: Session, now: float) -> Exchange:
        """Decode a request and find what answers it, and what goes wrong with it.

        Args:
            frame: the request without its length.
            session: the connection that it came by.
            now: the loop's time.

        Raises:
            CloseConnection: it is not one that this broker serves.
        """
        try:
            header, reader = decode_request_header(frame)
            key, version = header.request_api_key, header.request_api_version
            request = None
            if self._serves(key, version):
                request = request_class(key).decode(reader, version)
                reader.expect_end()
        except KafkaProtocolError as error:
            raise CloseConnection(str(error)) from error
        body = request if len(frame) <= LARGEST_BODY_KEPT else None
        seen = SeenRequest(
            self._node_id,
            session.connection_id,
            ApiKey(key),
            version,
            header.correlation_id,
            header.client_id,
            len(frame),
            now,
            body,
        )
        fault = self._control.on_request(seen, request)
        if request is None:
            return self._refuse(header)
        context = RequestContext(
            self._state,
            self._node_id,
            version,
            header.client_id,
            session,
            self._offered,
            None if fault is None else fault.error_for,
        )
        serve = handle_of(key)
        return Exchange(
            header.correlation_id, version, lambda: serve(request, context), request, fault
        )

    def _serves(self, key: int, version: int) -> bool:
        first, last = self._offered.get(key, (0, -1))
        return first <= version <= last

    def _refuse(self, header: RequestHeader) -> Exchange:
        """What answers a request that is not served: nothing, but for ApiVersions."""
        key = header.request_api_key
        if key == ApiKey.API_VERSIONS and key in self._offered:
            return Exchange(
                header.correlation_id, 0, lambda: unsupported_version(self._offered, key)
            )
        raise CloseConnection(
            f"{api_name(key)} version {header.request_api_version} is not offered"
        )

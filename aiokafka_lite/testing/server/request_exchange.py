"""The processing of one request in a broker, from its frame to its response. No I/O.

As on a real broker, an invalid request closes the connection: an API or version that the broker
does not offer, a malformed request, or anything but authentication from a client that has not
authenticated yet. Only ApiVersions is answered in every version (KIP-511).
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from aiokafka_lite.errors import IllegalSaslStateError, KafkaProtocolError, UnsupportedVersionError
from aiokafka_lite.protocol.framing import decode_request_header, encode_response
from aiokafka_lite.protocol.message import Request, Response
from aiokafka_lite.protocol.messages.api_versions import ApiVersionsResponse
from aiokafka_lite.protocol.messages.request_header import RequestHeader
from aiokafka_lite.protocol.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from aiokafka_lite.protocol.registry import ApiKey, api_name, request_class, response_class
from aiokafka_lite.testing.apis import handle_of
from aiokafka_lite.testing.apis.api_versions import unsupported_version
from aiokafka_lite.testing.client_session import Session
from aiokafka_lite.testing.context import (
    Answer,
    ApiRanges,
    CloseConnection,
    Farewell,
    RequestContext,
)
from aiokafka_lite.testing.control import (
    LARGEST_BODY_KEPT,
    Control,
    ErrorOf,
    Fault,
    SeenRequest,
    overwrite_error_codes,
)
from aiokafka_lite.testing.state import ClusterState

if TYPE_CHECKING:
    from aiokafka_lite.testing.security.authentication import Authentication

__all__ = ["Dispatcher", "Exchange"]

_NO_HEADER: Final = -1
"""Version and correlation id of a request without a header: a bare SASL token."""


class Exchange:
    """A request, the fault that applies to it, and its handler.

    Attributes:
        request: The decoded request; None for an ApiVersions request of an unknown version.
        fault: The fault that applies to it, if any.
        handle: Handles the request; may raise `CloseConnection`.
        seen: The recorded request.
        busy: Handling time in seconds, where quotas count it.
        ends_connection: True if the connection closes after the response.
    """

    __slots__ = (
        "_correlation_id",
        "_version",
        "busy",
        "ends_connection",
        "fault",
        "handle",
        "request",
        "seen",
    )

    def __init__(
        self,
        seen: SeenRequest,
        version: int,
        handle: Callable[[], Answer],
        request: Request | None = None,
        fault: Fault | None = None,
    ) -> None:
        self._correlation_id = seen.correlation_id
        self._version = version
        self.handle = handle
        self.request = request
        self.fault = fault
        self.seen = seen
        self.busy = 0.0
        self.ends_connection = False

    def encode(self, response: Response) -> bytearray:
        """Return the response's frame, starting with its length.

        UNSUPPORTED_VERSION for ApiVersions is encoded in version 0, which every client can read
        (KIP-511), even if a test injects it into a supported version.
        """
        version = self._version
        if (
            isinstance(response, ApiVersionsResponse)
            and response.error_code == UnsupportedVersionError.errno
        ):
            version = 0
            response = ApiVersionsResponse(response.error_code, response.api_keys)
        return encode_response(response, version, self._correlation_id)


class _TokenExchange(Exchange):
    """An exchange of bare SASL tokens; a rejected token closes the connection."""

    __slots__ = ("_authentication",)

    def __init__(
        self,
        seen: SeenRequest,
        handle: Callable[[], Answer],
        request: Request,
        fault: Fault | None,
        authentication: "Authentication",
    ) -> None:
        super().__init__(seen, 0, handle, request, fault)
        self._authentication = authentication

    def encode(self, response: Response) -> bytearray:
        if not isinstance(response, SaslAuthenticateResponse) or response.error_code:
            raise CloseConnection("rejected a client that does not use SaslAuthenticate")
        if self._authentication.is_done and not self._authentication.answers_last:
            return bytearray()
        return bytearray(len(response.auth_bytes).to_bytes(4, "big") + response.auth_bytes)


class Dispatcher:
    """Dispatches the requests of all connections of one broker.

    Args:
        state: The cluster's state.
        node_id: This broker.
        offered: The versions that this cluster offers, by API key.
        control: The cluster's faults.

    Attributes:
        throttles: The cluster's throttles.
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
        self.throttles = state.throttles

    def new_session(self, connection_id: int) -> Session:
        """Return the session of a newly accepted connection."""
        sasl = self._state.sasl
        if sasl is None:
            return Session(connection_id)
        return Session(connection_id, authentication=sasl.new_authentication())

    def on_disconnect(self, session: Session) -> None:
        """Release what belongs to a closed connection: its share sessions."""
        share = self._state.used_share
        if share is not None:
            share.on_disconnect(self._node_id, session.connection_id)

    def receive(self, frame: bytes | bytearray, session: Session, now: float) -> Exchange:
        """Decode a request and find its handler and its fault.

        Args:
            frame: The request without its length prefix.
            session: Session of the connection that received it.
            now: Event loop time in seconds.

        Raises:
            CloseConnection: This broker does not serve the request.
        """
        authentication = session.authentication
        if authentication is not None and authentication.takes_tokens:
            return self._receive_token(frame, session, now, authentication)
        try:
            header, reader = decode_request_header(frame)
            key, version = header.request_api_key, header.request_api_version
            refused = None if authentication is None else self._admit(session, key)
            request = None
            if self._serves(key, version):
                # Ignore trailing bytes, as Kafka does: librdkafka's Metadata v13 has three bytes
                # too many.
                request = request_class(key).decode(reader, version)
        except KafkaProtocolError as error:
            raise CloseConnection(str(error)) from error
        seen = SeenRequest(
            self._node_id,
            session.connection_id,
            ApiKey(key),
            version,
            header.correlation_id,
            header.client_id,
            len(frame),
            now,
            request if len(frame) <= LARGEST_BODY_KEPT else None,
            session.principal,
        )
        fault, errors = self._control.on_request(seen, request)
        if request is None:
            return self._refuse(header, seen)
        if refused is not None:
            last = refused  # for the lambda
            return Exchange(seen, version, lambda: last, request)
        context = self._context(version, header.client_id, session, errors)
        if self.throttles.active and key == ApiKey.FETCH:
            self._limit_fetch(request, session.user, header.client_id or "")
        serve = handle_of(key)

        def handle() -> Answer:
            answer = serve(request, context)
            if authentication is not None and isinstance(answer, ApiVersionsResponse):
                authentication.on_versions(answer.error_code)
            return answer

        return Exchange(seen, version, handle, request, fault)

    def _receive_token(
        self,
        frame: bytes | bytearray,
        session: Session,
        now: float,
        authentication: "Authentication",
    ) -> Exchange:
        """Handle a bare token after SaslHandshake v0; it is recorded as SaslAuthenticate."""
        key = ApiKey.SASL_AUTHENTICATE
        request = SaslAuthenticateRequest(bytes(frame))
        seen = SeenRequest(
            self._node_id,
            session.connection_id,
            key,
            _NO_HEADER,
            _NO_HEADER,
            None,
            len(frame),
            now,
            request,
            session.principal,
        )
        fault, errors = self._control.on_request(seen, request)
        context = self._context(0, None, session, errors)
        serve = handle_of(key)
        return _TokenExchange(seen, lambda: serve(request, context), request, fault, authentication)

    def _admit(self, session: Session, key: int) -> Farewell | None:
        """Return the rejection of a request that is not allowed during authentication, if any.

        Raises:
            CloseConnection: The request is rejected without a response.
        """
        from aiokafka_lite.testing.security.authentication import NotAdmitted

        if session.authentication is None:
            return None
        try:
            session.authentication.admit(key)
        except NotAdmitted as reason:
            raise CloseConnection(str(reason)) from reason
        except IllegalSaslStateError as error:
            refusal: Response = response_class(key)()
            overwrite_error_codes(refusal, error.errno)
            return Farewell(refusal)
        return None

    def _context(
        self, version: int, client_id: str | None, session: Session, errors: ErrorOf | None
    ) -> RequestContext:
        return RequestContext(
            self._state,
            self._node_id,
            version,
            client_id,
            session,
            self._offered,
            errors,
        )

    def _serves(self, key: int, version: int) -> bool:
        first, last = self._offered.get(key, (0, -1))
        return first <= version <= last

    def _limit_fetch(self, request: Request, user: str, client_id: str) -> None:
        """Cap a fetch request's size at the most that its quota can ever allow."""
        from aiokafka_lite.protocol.messages.fetch import FetchRequest  # rare: import late

        limit = self.throttles.largest_fetch(user, client_id)
        if limit and isinstance(request, FetchRequest):
            request.max_bytes = min(request.max_bytes, limit)

    def _refuse(self, header: RequestHeader, seen: SeenRequest) -> Exchange:
        """Reject an unsupported request; only ApiVersions gets a response."""
        key = header.request_api_key
        if key == ApiKey.API_VERSIONS and key in self._offered:
            return Exchange(seen, 0, lambda: unsupported_version(self._offered, key))
        raise CloseConnection(
            f"{api_name(key)} version {header.request_api_version} is not offered"
        )

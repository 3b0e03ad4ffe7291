"""Base classes of the generated messages: comparison, a readable repr, and the error for fields
that a version does not have."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic, Protocol, Self, TypeVar

from aiokafka_lite.errors import UnsupportedVersionError

if TYPE_CHECKING:
    from aiokafka_lite.protocol.primitives import Reader

NEVER: Final = 32767
"""`flexible_from` of a message that has no flexible version."""


EMPTY: Final[list[Any]] = []
"""As a default argument: "a new empty list" (None may mean Kafka's null). Never filled."""


class Struct:
    """A message or a part of one: plain mutable data, equal if all fields are equal.

    Attributes:
        unknown_tagged_fields: Tagged fields of a newer schema, kept unchanged and written back.
    """

    __slots__ = ("unknown_tagged_fields",)

    unknown_tagged_fields: dict[int, bytes]

    def encode(self, out: bytearray, version: int) -> None:
        """Append this struct, encoded in `version`.

        Raises:
            UnsupportedVersionError: A field is set that the version lacks and that must not be
                dropped silently.
            ValueError, struct.error: A value does not fit its field.
        """
        raise NotImplementedError

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        """Decode a struct at the reader's position; fields that the version lacks get their
        defaults.

        Raises:
            KafkaProtocolError: The bytes are not such a struct in that version.
        """
        raise NotImplementedError

    def __eq__(self, other: object) -> bool:
        if other.__class__ is not self.__class__:
            return NotImplemented
        return all(
            getattr(self, name) == getattr(other, name) for name in self.__slots__
        ) and self.unknown_tagged_fields == getattr(other, "unknown_tagged_fields", None)

    __hash__ = None  # type: ignore[assignment]  # mutable; object.__hash__ would lie

    def __repr__(self) -> str:
        shown = [f"{name}={_shown(getattr(self, name), name)}" for name in self.__slots__]
        if self.unknown_tagged_fields:
            shown.append(f"unknown_tagged_fields={self.unknown_tagged_fields!r}")
        return f"{type(self).__name__}({', '.join(shown)})"


SECRET: Final = frozenset({"auth_bytes", "hmac", "salt", "salted_password"})
"""Fields with passwords and tokens. A repr shows only their size, because it may be logged."""


def _shown(value: object, name: str = "") -> str:
    """Return the repr of a field; of records only the size, or a log line could hold a megabyte."""
    if isinstance(value, memoryview):
        return f"<{value.nbytes} bytes>"
    if isinstance(value, bytes | bytearray) and (len(value) > 64 or name in SECRET):
        return f"<{len(value)} bytes>"
    return repr(value)


class Message(Struct):
    """A whole message body: a request, a response, a header or a data schema.

    Attributes:
        name: Kafka's name without the direction: "Metadata".
        api_key: Number of the API; -1 if there is none.
        min_version: Oldest supported version.
        max_version: Newest supported version.
        flexible_from: First flexible version (KIP-482); 32767 if there is none.
    """

    __slots__ = ()

    name: ClassVar[str]
    api_key: ClassVar[int]
    min_version: ClassVar[int]
    max_version: ClassVar[int]
    flexible_from: ClassVar[int]


class Response(Message):
    """The body of a response."""

    __slots__ = ()


class Request(Message):
    """The body of a request.

    Attributes:
        response: Class of the response.
    """

    __slots__ = ()

    response: ClassVar[type[Response]]


ResponseT = TypeVar("ResponseT", bound=Response)
ResponseT_co = TypeVar("ResponseT_co", bound=Response, covariant=True)


class RequestOf(Protocol, Generic[ResponseT_co]):
    """The type of a request with a given response: `def send(r: RequestOf[R]) -> Future[R]`."""

    @property
    def api_key(self) -> int: ...
    @property
    def name(self) -> str: ...
    @property
    def min_version(self) -> int: ...
    @property
    def max_version(self) -> int: ...
    @property
    def flexible_from(self) -> int: ...
    @property
    def response(self) -> type[ResponseT_co]: ...
    def encode(self, out: bytearray, version: int) -> None: ...


def unsupported(struct: Struct, field: str, version: int) -> UnsupportedVersionError:
    """Return the error for a field that is set (or null) although `version` cannot express it."""
    value: Any = getattr(struct, field)
    return UnsupportedVersionError(
        f"{type(struct).__name__}.{field}={_shown(value, field)} cannot be sent in version"
        f" {version}"
    )

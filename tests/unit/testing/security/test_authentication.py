"""The SASL state of a connection: tables of requests and their results."""

import pytest

from aiokafka_lite.errors import (
    IllegalSaslStateError,
    SaslAuthenticationFailed,
    UnsupportedSaslMechanismError,
)
from aiokafka_lite.protocol.registry import ApiKey
from aiokafka_lite.testing.clock import VirtualClock
from aiokafka_lite.testing.security.authentication import Authentication, NotAdmitted, Sasl
from aiokafka_lite.testing.security.users import Users

ALICE = b"\0alice\0secret"
BOB = b"\0bob\0secret"


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


def sasl(clock: VirtualClock, lifetime: float | None = None) -> Sasl:
    users = Users(lambda: b"salt")
    users.put("alice", "secret")
    users.put("bob", "secret")
    return Sasl(
        users,
        ("PLAIN", "SCRAM-SHA-256"),
        clock=clock,
        new_nonce=lambda: "nonce",
        session_lifetime=lifetime,
    )


def known(clock: VirtualClock, lifetime: float | None = None) -> Authentication:
    """A connection of alice's."""
    authentication = sasl(clock, lifetime).new_authentication()
    authentication.admit(ApiKey.SASL_HANDSHAKE)
    authentication.on_handshake("PLAIN", 1)
    authentication.admit(ApiKey.SASL_AUTHENTICATE)
    assert authentication.on_message(ALICE).user == "alice"
    return authentication


def test_the_usual_way(clock: VirtualClock) -> None:
    authentication = sasl(clock).new_authentication()
    authentication.admit(ApiKey.API_VERSIONS)
    authentication.on_versions(0)
    authentication.admit(ApiKey.SASL_HANDSHAKE)
    authentication.on_handshake("PLAIN", 1)
    assert not authentication.takes_tokens
    authentication.admit(ApiKey.SASL_AUTHENTICATE)
    assert authentication.on_message(ALICE) == (b"", "alice", 0)
    for key in (ApiKey.METADATA, ApiKey.SASL_HANDSHAKE, ApiKey.API_VERSIONS):
        authentication.admit(key)
    with pytest.raises(IllegalSaslStateError):
        authentication.on_handshake("PLAIN", 1)


def test_bare_tokens_follow_a_handshake_of_version_0(clock: VirtualClock) -> None:
    authentication = sasl(clock).new_authentication()
    authentication.on_handshake("PLAIN", 0)
    assert authentication.takes_tokens
    assert authentication.on_message(ALICE).user == "alice"
    assert not authentication.takes_tokens


@pytest.mark.parametrize("key", [ApiKey.METADATA, ApiKey.SASL_AUTHENTICATE, ApiKey.PRODUCE])
def test_requests_before_the_authentication_are_refused(clock: VirtualClock, key: ApiKey) -> None:
    with pytest.raises(NotAdmitted):
        sasl(clock).new_authentication().admit(key)


def test_api_versions_is_accepted_once(clock: VirtualClock) -> None:
    authentication = sasl(clock).new_authentication()
    authentication.on_versions(42)  # it was refused: it may try again
    authentication.admit(ApiKey.API_VERSIONS)
    authentication.on_versions(0)
    with pytest.raises(NotAdmitted):
        authentication.admit(ApiKey.API_VERSIONS)


def test_only_a_token_is_accepted_after_the_handshake(clock: VirtualClock) -> None:
    authentication = sasl(clock).new_authentication()
    authentication.on_handshake("PLAIN", 1)
    with pytest.raises(IllegalSaslStateError):
        authentication.admit(ApiKey.METADATA)
    with pytest.raises(NotAdmitted):
        authentication.admit(ApiKey.SASL_HANDSHAKE)


def test_refusals_are_the_end(clock: VirtualClock) -> None:
    wrong = sasl(clock).new_authentication()
    with pytest.raises(UnsupportedSaslMechanismError):
        wrong.on_handshake("SCRAM-SHA-512", 1)
    with pytest.raises(NotAdmitted):
        wrong.admit(ApiKey.SASL_HANDSHAKE)
    refused = sasl(clock).new_authentication()
    refused.on_handshake("SCRAM-SHA-256", 1)
    with pytest.raises(SaslAuthenticationFailed, match="during authentication due to invalid"):
        refused.on_message(b"n,,n=nobody,r=abc")
    with pytest.raises(NotAdmitted):
        refused.admit(ApiKey.SASL_HANDSHAKE)


def test_a_session_ends(clock: VirtualClock) -> None:
    authentication = known(clock, 60.0)
    clock.advance(60.0)
    authentication.admit(ApiKey.METADATA)
    clock.advance(0.002)
    with pytest.raises(NotAdmitted, match="expired"):
        authentication.admit(ApiKey.METADATA)


def test_a_session_is_renewed(clock: VirtualClock) -> None:
    authentication = known(clock, 60.0)
    for _ in range(5):
        clock.advance(50.0)
        authentication.admit(ApiKey.SASL_HANDSHAKE)
        authentication.on_handshake("PLAIN", 1)
        authentication.admit(ApiKey.SASL_AUTHENTICATE)
        assert authentication.on_message(ALICE) == (b"", "alice", 60_000)
        authentication.admit(ApiKey.METADATA)


def test_only_a_token_is_accepted_during_a_reauthentication(clock: VirtualClock) -> None:
    authentication = known(clock, 60.0)
    authentication.admit(ApiKey.SASL_HANDSHAKE)
    authentication.on_handshake("PLAIN", 1)
    with pytest.raises(IllegalSaslStateError):
        authentication.admit(ApiKey.METADATA)


def test_renewing_twice_in_a_second_is_refused(clock: VirtualClock) -> None:
    authentication = known(clock, 60.0)
    authentication.admit(ApiKey.SASL_HANDSHAKE)
    authentication.on_handshake("PLAIN", 1)
    authentication.on_message(ALICE)
    clock.advance(0.9)
    authentication.admit(ApiKey.SASL_HANDSHAKE)
    with pytest.raises(IllegalSaslStateError):
        authentication.on_handshake("PLAIN", 1)
    clock.advance(0.2)
    authentication.admit(ApiKey.SASL_HANDSHAKE)
    authentication.on_handshake("PLAIN", 1)


def test_reauthentication_cannot_change_the_principal(clock: VirtualClock) -> None:
    authentication = known(clock, 60.0)
    authentication.admit(ApiKey.SASL_HANDSHAKE)
    authentication.on_handshake("PLAIN", 1)
    with pytest.raises(SaslAuthenticationFailed, match="Cannot change principals"):
        authentication.on_message(BOB)


def test_an_unknown_mechanism_while_it_is_renewed(clock: VirtualClock) -> None:
    authentication = known(clock, 60.0)
    authentication.admit(ApiKey.SASL_HANDSHAKE)
    with pytest.raises(NotAdmitted):
        authentication.on_handshake("GSSAPI", 1)


def test_the_mechanism_stays(clock: VirtualClock) -> None:
    authentication = known(clock, 60.0)
    authentication.admit(ApiKey.SASL_HANDSHAKE)
    authentication.on_handshake("SCRAM-SHA-256", 1)
    with pytest.raises(NotAdmitted):
        authentication.admit(ApiKey.SASL_AUTHENTICATE)


@pytest.mark.parametrize("mechanisms", [(), ("MAGIC",)])
def test_mechanisms_that_are_not_there(clock: VirtualClock, mechanisms: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match="sasl_mechanisms"):
        Sasl(Users(lambda: b""), mechanisms, clock=clock, new_nonce=str)


def test_a_lifetime_is_positive(clock: VirtualClock) -> None:
    with pytest.raises(ValueError, match="sasl_session_lifetime"):
        sasl(clock, 0.0)

"""The APIs of users, ACLs, quotas and tokens, without sockets; also verified with a real Kafka."""

import hashlib

import pytest

from aiokafka_lite.protocol.message import Request
from aiokafka_lite.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntryData,
    EntityData,
    OpData,
)
from aiokafka_lite.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from aiokafka_lite.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from aiokafka_lite.protocol.messages.create_delegation_token import CreateDelegationTokenRequest
from aiokafka_lite.protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from aiokafka_lite.protocol.messages.describe_acls import DescribeAclsRequest
from aiokafka_lite.protocol.messages.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
)
from aiokafka_lite.protocol.messages.describe_delegation_token import (
    DescribeDelegationTokenRequest,
)
from aiokafka_lite.protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    UserName,
)
from aiokafka_lite.protocol.messages.expire_delegation_token import ExpireDelegationTokenRequest
from aiokafka_lite.protocol.messages.renew_delegation_token import RenewDelegationTokenRequest
from aiokafka_lite.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from aiokafka_lite.protocol.messages.sasl_handshake import SaslHandshakeRequest
from aiokafka_lite.testing.security.acl_table import AclFilter
from aiokafka_lite.testing.security.authorizer import Authorizer
from aiokafka_lite.testing.security.credentials import derive
from tests.unit.testing.raw import SocketlessBroker

TOPIC, LITERAL, PREFIXED, MATCH, READ, ALLOW, ANY = 2, 3, 4, 2, 3, 3, 1


def creation(
    name: str = "orders", pattern: int = LITERAL, principal: str = "User:a"
) -> AclCreation:
    return AclCreation(TOPIC, name, pattern, principal, "*", READ, ALLOW)


def quota(key: str, value: float, *, remove: bool = False) -> AlterClientQuotasRequest:
    parts = [EntityData("user", "alice"), EntityData("client-id", None)]
    ops = [OpData(key, value, remove)]
    return AlterClientQuotasRequest([AlterClientQuotasRequestEntryData(parts, ops)])


def test_acls(broker: SocketlessBroker) -> None:
    broker.state.authorizer = Authorizer(["User:ANONYMOUS"])
    created = broker.ask(CreateAclsRequest([creation(), creation("ord", PREFIXED)]), 3)
    assert [result.error_code for result in created.results] == [0, 0]
    created = broker.ask(CreateAclsRequest([creation(""), creation(), creation("x", 3, "a")]), 3)
    assert [result.error_code for result in created.results] == [42, 0, 42]
    created = broker.ask(CreateAclsRequest([creation(pattern=ANY), creation("new")]), 3)
    assert [result.error_code for result in created.results] == [-1, -1]
    found = broker.ask(DescribeAclsRequest(TOPIC, "orders", MATCH, None, None, ANY, ANY), 3)
    told = [(resource.resource_name, resource.pattern_type) for resource in found.resources]
    assert told == [("orders", LITERAL), ("ord", PREFIXED)]
    assert found.resources[0].acls[0].principal == "User:a"
    everything = DeleteAclsFilter(ANY, None, ANY, None, None, ANY, ANY)
    unknown = DeleteAclsFilter(ANY, None, ANY, None, None, 99, ANY)
    deleted = broker.ask(DeleteAclsRequest([everything, unknown, everything]), 3)
    assert [result.error_code for result in deleted.filter_results] == [0, 42, 0]
    assert [len(result.matching_acls) for result in deleted.filter_results] == [2, 0, 2]
    assert broker.state.authorizer.acls.find(AclFilter()) == []
    found = broker.ask(DescribeAclsRequest(TOPIC, None, 99, None, None, ANY, ANY), 3)
    assert found.error_code == 42


def test_acls_without_an_authorizer(broker: SocketlessBroker) -> None:
    everything = DeleteAclsFilter(ANY, None, ANY, None, None, ANY, ANY)
    assert broker.ask(CreateAclsRequest([creation()]), 1).results[0].error_code == 54
    assert broker.ask(DeleteAclsRequest([everything]), 1).filter_results[0].error_code == 54
    described = broker.ask(DescribeAclsRequest(TOPIC, None, ANY, None, None, ANY, ANY), 1)
    assert described.error_code == 54


def test_scram_credentials(broker: SocketlessBroker) -> None:
    salted = hashlib.pbkdf2_hmac("sha256", b"secret", b"salt", 4096)

    def alter(*changes: ScramCredentialDeletion | ScramCredentialUpsertion) -> dict[str, int]:
        deletions = [one for one in changes if isinstance(one, ScramCredentialDeletion)]
        upsertions = [one for one in changes if isinstance(one, ScramCredentialUpsertion)]
        response = broker.ask(AlterUserScramCredentialsRequest(deletions, upsertions), 0)
        return {result.user: result.error_code for result in response.results}

    def put(name: str, mechanism: int = 1, iterations: int = 4096) -> ScramCredentialUpsertion:
        return ScramCredentialUpsertion(name, mechanism, iterations, b"salt", salted)

    assert alter(put("a"), put("b", 2, 8192)) == {"a": 0, "b": 0}
    assert broker.state.users.credential("a", "SCRAM-SHA-256") == derive(
        "SCRAM-SHA-256", "secret", b"salt", 4096
    )
    assert alter(put("c"), put("c", 2)) == {"c": 92}
    assert alter(put("", 1), put("d", 9), put("e", 1, 10), put("f", 1, 99_999)) == {
        "": 93,
        "d": 33,
        "e": 93,
        "f": 93,
    }
    assert alter(ScramCredentialDeletion("a", 2), ScramCredentialDeletion("b", 2)) == {
        "a": 91,
        "b": 0,
    }
    asked = [UserName("a"), UserName("b"), UserName("b")]
    for users, expected in ((asked, {"a": 0, "b": 92}), (None, {"a": 0})):
        response = broker.ask(DescribeUserScramCredentialsRequest(users), 0)
        assert {result.user: result.error_code for result in response.results} == expected
    assert [(i.mechanism, i.iterations) for i in response.results[0].credential_infos] == [
        (1, 4096)
    ]


def test_client_quotas(broker: SocketlessBroker) -> None:
    def find(*components: ComponentData) -> tuple[int, list[dict[str, float]]]:
        response = broker.ask(DescribeClientQuotasRequest(list(components), True), 1)
        entries = response.entries or []
        return response.error_code, [{v.key: v.value for v in entry.values} for entry in entries]

    assert broker.ask(quota("producer_byte_rate", 5.0), 1).entries[0].error_code == 0
    assert broker.ask(quota("producer_byte_rate", 0.0), 1).entries[0].error_code == 42
    both = (ComponentData("user", 0, "alice"), ComponentData("client-id", 1, None))
    assert find(*both) == (0, [{"producer_byte_rate": 5.0}])
    assert find(both[0]) == (0, [])
    assert find(ComponentData("client-id", 2, None), ComponentData("user", 2, None))[1]
    for wrong in (
        ComponentData("", 0, "x"),
        ComponentData("user", 0, None),
        ComponentData("user", 1, "x"),
        ComponentData("user", 7, None),
    ):
        assert find(wrong) == (42, [])
    assert find(both[0], both[0]) == (42, [])
    assert find(ComponentData("shoe", 0, "x")) == (35, [])
    twice = AlterClientQuotasRequestEntryData(
        [EntityData("user", "a")], [OpData("producer_byte_rate", 1.0)] * 2
    )
    same = AlterClientQuotasRequestEntryData([EntityData("user", "a"), EntityData("user", "b")], [])
    answer = broker.ask(AlterClientQuotasRequest([twice, same]), 1)
    assert [entry.error_code for entry in answer.entries] == [42, 42]
    broker.ask(quota("producer_byte_rate", 0.0, remove=True), 1)
    assert find(*both) == (0, [])


def test_delegation_tokens_are_disabled(broker: SocketlessBroker) -> None:
    requests: list[tuple[Request, int]] = [
        (CreateDelegationTokenRequest(None, None, [], -1), 3),
        (DescribeDelegationTokenRequest(None), 3),
        (RenewDelegationTokenRequest(b"x", 1), 2),
        (ExpireDelegationTokenRequest(b"x", 1), 2),
    ]
    assert [broker.ask(*one).error_code for one in requests] == [64] * 4
    broker.session.principal = "User:alice"
    assert [broker.ask(*one).error_code for one in requests] == [61] * 4
    broker.state.authorizer = Authorizer()
    for_bob = CreateDelegationTokenRequest("User", "bob", [], -1)
    answer = broker.ask(for_bob, 3)
    assert (answer.error_code, answer.principal_name) == (65, "bob")
    assert answer.token_requester_principal_name == "alice"


def test_requests_that_need_rights_on_the_cluster(broker: SocketlessBroker) -> None:
    broker.state.authorizer = Authorizer()
    upsertion = ScramCredentialUpsertion("a", 1, 4096, b"salt", b"salted")
    everything = DeleteAclsFilter(ANY, None, ANY, None, None, ANY, ANY)
    ask = broker.ask
    codes = [
        ask(CreateAclsRequest([creation()]), 3).results[0].error_code,
        ask(DeleteAclsRequest([everything]), 3).filter_results[0].error_code,
        ask(DescribeAclsRequest(TOPIC, None, ANY, None, None, ANY, ANY), 3).error_code,
        ask(AlterUserScramCredentialsRequest([], [upsertion]), 0).results[0].error_code,
        ask(DescribeUserScramCredentialsRequest([UserName("a")]), 0).error_code,
        ask(quota("producer_byte_rate", 5.0), 1).entries[0].error_code,
        ask(DescribeClientQuotasRequest([], False), 1).error_code,
    ]
    assert codes == [31] * len(codes)


@pytest.mark.parametrize("version", [0, 1])
def test_a_listener_without_sasl(broker: SocketlessBroker, version: int) -> None:
    assert broker.ask(SaslHandshakeRequest("PLAIN"), version).error_code == 34
    assert broker.ask(SaslAuthenticateRequest(b"x"), version).error_code == 34

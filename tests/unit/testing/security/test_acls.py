"""Tables of the authorizer's decisions and of its filters."""

import pytest

from aiokafka_lite.admin.core.authorized_operations import AclOperation
from aiokafka_lite.errors import (
    ClusterAuthorizationFailedError,
    DelegationTokenAuthorizationFailed,
    GroupAuthorizationFailedError,
    InvalidRequestError,
    TopicAuthorizationFailedError,
    TransactionalIdAuthorizationFailed,
)
from aiokafka_lite.testing.client_session import ANONYMOUS
from aiokafka_lite.testing.security.acl_table import (
    CLUSTER_NAME,
    Acl,
    AclFilter,
    AclTable,
    Operation,
    Pattern,
    Permission,
    Resource,
    acl_of_codes,
    filter_of_codes,
    refusal,
)
from aiokafka_lite.testing.security.authorizer import Authorizer
from tests.unit.testing.raw import SocketlessBroker
from tests.unit.testing.security.test_users import Remembering

READ, WRITE, DESCRIBE, ALL = (
    Operation.READ,
    Operation.WRITE,
    Operation.DESCRIBE,
    Operation.ALL,
)
TOPIC, GROUP = Resource.TOPIC, Resource.GROUP
ALICE, HOST = "User:alice", "10.0.0.1"


@pytest.fixture
def authorizer() -> Authorizer:
    return Authorizer(["User:admin"])


def may(authorizer: Authorizer, operation: Operation, name: str, who: str = ALICE) -> bool:
    return authorizer.allows(who, HOST, operation, TOPIC, name)


def test_nothing_is_allowed_but_to_super_users(authorizer: Authorizer) -> None:
    assert not may(authorizer, READ, "orders")
    assert may(authorizer, READ, "orders", "User:admin")
    authorizer.acls.deny("User:*", ALL, TOPIC, "*")
    assert may(authorizer, READ, "orders", "User:admin")


@pytest.mark.parametrize(
    ("granted", "implied"),
    [
        (READ, {READ, DESCRIBE}),
        (WRITE, {WRITE, DESCRIBE}),
        (Operation.DELETE, {Operation.DELETE, DESCRIBE}),
        (Operation.ALTER, {Operation.ALTER, DESCRIBE}),
        (DESCRIBE, {DESCRIBE}),
        (Operation.CREATE, {Operation.CREATE}),
        (Operation.DESCRIBE_CONFIGS, {Operation.DESCRIBE_CONFIGS}),
        (Operation.ALTER_CONFIGS, {Operation.ALTER_CONFIGS, Operation.DESCRIBE_CONFIGS}),
    ],
)
def test_operations_implied_by_an_allow(
    authorizer: Authorizer, granted: Operation, implied: set[Operation]
) -> None:
    authorizer.acls.allow(ALICE, granted, TOPIC, "orders")
    bits = authorizer.allowed_operations(ALICE, HOST, TOPIC, "orders")
    assert bits == sum(1 << operation for operation in implied)


def test_a_deny_implies_nothing(authorizer: Authorizer) -> None:
    authorizer.acls.allow(ALICE, ALL, TOPIC, "orders")
    authorizer.acls.deny(ALICE, READ, TOPIC, "orders")
    assert not may(authorizer, READ, "orders")
    assert may(authorizer, DESCRIBE, "orders")
    assert may(authorizer, WRITE, "orders")


@pytest.mark.parametrize(
    ("name", "pattern", "host", "principal", "applies"),
    [
        ("orders", Pattern.LITERAL, "*", ALICE, True),
        ("orders", Pattern.LITERAL, HOST, ALICE, True),
        ("orders", Pattern.LITERAL, "10.0.0.2", ALICE, False),
        ("orders", Pattern.LITERAL, "*", "User:*", True),
        ("orders", Pattern.LITERAL, "*", "User:bob", False),
        ("order", Pattern.LITERAL, "*", ALICE, False),
        ("ord", Pattern.PREFIXED, "*", ALICE, True),
        ("orders-", Pattern.PREFIXED, "*", ALICE, False),
        ("*", Pattern.LITERAL, "*", ALICE, True),
        ("*", Pattern.PREFIXED, "*", ALICE, False),
    ],
)
@pytest.mark.parametrize("permission", [Permission.ALLOW, Permission.DENY])
def test_which_lines_apply(
    authorizer: Authorizer,
    name: str,
    pattern: Pattern,
    host: str,
    principal: str,
    permission: Permission,
    applies: bool,
) -> None:
    if permission is Permission.DENY:
        authorizer.acls.allow("User:*", ALL, TOPIC, "*")
    authorizer.acls.add(Acl(TOPIC, name, pattern, principal, host, READ, permission))
    assert may(authorizer, READ, "orders") == (applies == (permission is Permission.ALLOW))


def test_another_resource_of_that_name(authorizer: Authorizer) -> None:
    authorizer.acls.allow(ALICE, READ, GROUP, "orders")
    assert not may(authorizer, READ, "orders")


def test_resources_without_any_acl() -> None:
    lenient = Authorizer(allow_everyone_if_no_acl_found=True)
    assert may(lenient, READ, "orders")
    lenient.acls.allow("User:bob", READ, TOPIC, "orders")
    assert not may(lenient, READ, "orders")
    assert may(lenient, READ, "others")


@pytest.mark.parametrize(
    ("allowed", "denied", "any_topic"),
    [
        ([], [], False),
        (["orders"], [], True),
        (["orders"], ["orders"], False),
        (["orders"], ["others"], True),
        (["orders"], ["ord*"], False),
        (["ord*"], ["orders"], True),
        (["orders*"], ["ord*"], False),
        (["*"], ["orders"], True),
        (["*"], ["o*"], True),
        (["*", "orders"], ["*"], False),
    ],
)
def test_may_write_to_any_topic(
    authorizer: Authorizer, allowed: list[str], denied: list[str], any_topic: bool
) -> None:
    """A name that ends in * is a prefix; * alone matches everything."""
    for permission, names in ((Permission.ALLOW, allowed), (Permission.DENY, denied)):
        for name in names:
            prefixed = name.endswith("*") and name != "*"
            pattern = Pattern.PREFIXED if prefixed else Pattern.LITERAL
            bare = name[:-1] if prefixed else name
            authorizer.acls.add(Acl(TOPIC, bare, pattern, ALICE, "*", WRITE, permission))
    assert authorizer.allows_any(ALICE, HOST, WRITE, TOPIC) == any_topic
    assert authorizer.allows_any("User:admin", HOST, WRITE, TOPIC)


def test_the_table_is_a_set_that_filters_search() -> None:
    table = AclTable()
    literal = table.allow(ALICE, READ, TOPIC, "orders")
    assert table.allow(ALICE, READ, TOPIC, "orders") == literal
    prefixed = table.deny(ALICE, READ, TOPIC, "ord", pattern=Pattern.PREFIXED, host=HOST)
    everything = table.allow("User:*", DESCRIBE, TOPIC, "*")
    group = table.allow(ALICE, READ, GROUP, "orders")
    assert table.find(AclFilter()) == [literal, prefixed, everything, group]
    for which, found in [
        (AclFilter(TOPIC, "orders"), [literal]),
        (AclFilter(TOPIC, "orders", Pattern.LITERAL), [literal]),
        (AclFilter(TOPIC, "orders", Pattern.PREFIXED), []),
        (AclFilter(TOPIC, "orders", Pattern.MATCH), [literal, prefixed, everything]),
        (AclFilter(name="orders"), [literal, group]),
        (AclFilter(principal="User:*"), [everything]),
        (AclFilter(host=HOST), [prefixed]),
        (AclFilter(operation=READ, permission=Permission.ALLOW), [literal, group]),
    ]:
        assert table.find(which) == found
    assert table.remove(group) == [group]
    assert table.remove(group) == []
    assert table.remove(AclFilter(TOPIC)) == [literal, prefixed, everything]
    assert table.find(AclFilter()) == []


@pytest.mark.parametrize(
    "change",
    [
        {"resource": Resource.ANY},
        {"resource": Resource.UNKNOWN},
        {"pattern": Pattern.MATCH},
        {"operation": Operation.ANY},
        {"permission": Permission.ANY},
        {"name": ""},
        {"principal": "alice"},
        {"resource": Resource.CLUSTER},
    ],
)
def test_invalid_acls_are_refused(change: dict[str, object]) -> None:
    good = Acl(TOPIC, "orders", Pattern.LITERAL, ALICE, "*", READ, Permission.ALLOW)
    with pytest.raises(InvalidRequestError):
        AclTable().add(good._replace(**change))  # type: ignore[arg-type]  # by name
    AclTable().add(good._replace(resource=Resource.CLUSTER, name=CLUSTER_NAME))


def test_codes_of_a_later_kafka() -> None:
    assert acl_of_codes(99, "x", 99, ALICE, "*", 99, 99).operation is Operation.UNKNOWN
    with pytest.raises(InvalidRequestError):
        filter_of_codes(2, None, 1, None, None, 99, 1)


def test_the_journal_remembers() -> None:
    journal = Remembering()
    table = AclTable(journal)
    kept = table.allow(ALICE, READ, TOPIC, "orders")
    table.remove(table.deny(ALICE, READ, TOPIC, "orders"))
    assert AclTable(journal).find(AclFilter()) == [kept]


@pytest.mark.parametrize(
    ("resource", "error"),
    [
        (Resource.TOPIC, TopicAuthorizationFailedError),
        (Resource.GROUP, GroupAuthorizationFailedError),
        (Resource.TRANSACTIONAL_ID, TransactionalIdAuthorizationFailed),
        (Resource.CLUSTER, ClusterAuthorizationFailedError),
        (Resource.USER, DelegationTokenAuthorizationFailed),
    ],
)
def test_refusals(resource: Resource, error: type[Exception]) -> None:
    assert type(refusal(READ, resource, "x")) is error


def test_rights_are_checked_for_the_principal_of_the_session(broker: SocketlessBroker) -> None:
    context = broker.dispatchers[0]._context(0, None, broker.session, None)
    assert context.allows(READ, TOPIC, "orders")
    assert context.authorized_operations(GROUP, "g") == 1 << 3 | 1 << 6 | 1 << 8 | 1 << 10 | 1 << 11
    broker.state.authorizer = Authorizer()
    assert not context.allows(READ, TOPIC, "orders")
    assert not context.allows_any(READ, TOPIC)
    with pytest.raises(TopicAuthorizationFailedError):
        context.authorize(READ, TOPIC, "orders")
    broker.state.authorizer.acls.allow(ANONYMOUS, READ, TOPIC, "orders", host="127.0.0.1")
    assert context.allows_any(READ, TOPIC)
    context.authorize(READ, TOPIC, "orders")
    assert context.authorized_operations(TOPIC, "orders") == 1 << READ | 1 << DESCRIBE


def test_operations_have_the_numbers_of_the_admin_client() -> None:
    assert {one.name: int(one) for one in Operation} == {one.name: int(one) for one in AclOperation}

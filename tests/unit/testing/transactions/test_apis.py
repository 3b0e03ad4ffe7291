"""Responses of the transactional APIs to invalid or unauthorized requests."""

from collections.abc import Callable
from typing import Any

import pytest

from aiokafka_lite.errors import (
    ClusterAuthorizationFailedError,
    GroupAuthorizationFailedError,
    InvalidProducerIdMapping,
    InvalidRegularExpressionError,
    InvalidRequestError,
    InvalidTopicError,
    InvalidTxnState,
    NotLeaderForPartitionError,
    OperationNotAttempted,
    TopicAuthorizationFailedError,
    TransactionAbortableError,
    TransactionalIdAuthorizationFailed,
    UnknownError,
    UnknownTopicOrPartitionError,
)
from aiokafka_lite.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTransaction,
)
from aiokafka_lite.protocol.messages.describe_producers import (
    DescribeProducersRequest,
    TopicRequest,
)
from aiokafka_lite.protocol.messages.describe_transactions import DescribeTransactionsRequest
from aiokafka_lite.protocol.messages.init_producer_id import InitProducerIdRequest
from aiokafka_lite.protocol.messages.list_transactions import ListTransactionsRequest
from aiokafka_lite.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from aiokafka_lite.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from aiokafka_lite.protocol.registry import ApiKey
from aiokafka_lite.testing.control import Fault
from aiokafka_lite.testing.security.acl_table import Operation, Resource
from aiokafka_lite.testing.security.authorizer import Authorizer
from tests.unit.testing.raw import NOW_MS, SocketlessBroker, make_batch
from tests.unit.testing.transactions.writer import Writer


class Denying(Authorizer):
    """Denies one operation."""

    def __init__(self, operation: Operation, resource: Resource) -> None:
        self.denied = (operation, resource)

    def allows(
        self, principal: str, host: str, operation: Operation, resource: Resource, name: str
    ) -> bool:
        return (operation, resource) != self.denied

    def allows_any(
        self, principal: str, host: str, operation: Operation, resource: Resource
    ) -> bool:
        return False


def deny(broker: SocketlessBroker, operation: Operation, resource: Resource) -> None:
    broker.state.authorizer = Denying(operation, resource)


def test_transactional_ids_require_permission(writer: Writer) -> None:
    refused = TransactionalIdAuthorizationFailed.errno
    deny(writer.broker, Operation.WRITE, Resource.TRANSACTIONAL_ID)
    assert writer.init() == refused
    assert writer.add(0, 1) == [refused, refused]
    assert writer.add_offsets("group") == refused
    assert writer.commit_offsets("group", 5) == refused
    assert writer.produce(0) == refused
    assert writer.end() == refused
    deny(writer.broker, Operation.DESCRIBE, Resource.TRANSACTIONAL_ID)
    assert writer.state == str(refused)
    assert writer.broker.ask(ListTransactionsRequest(), 0).transaction_states == []


def test_topics_and_groups_in_transactions_require_permission(writer: Writer) -> None:
    deny(writer.broker, Operation.WRITE, Resource.TOPIC)
    assert writer.add(0) == [TopicAuthorizationFailedError.errno]
    assert writer.produce(0) == TopicAuthorizationFailedError.errno
    deny(writer.broker, Operation.READ, Resource.TOPIC)
    assert writer.commit_offsets("group", 5, 5) == TopicAuthorizationFailedError.errno
    answer = writer.broker.ask(DescribeProducersRequest([TopicRequest("orders", [0])]), 0)
    assert answer.topics[0].partitions[0].error_code == TopicAuthorizationFailedError.errno
    deny(writer.broker, Operation.READ, Resource.GROUP)
    assert writer.commit_offsets("group", 5, 5) == GroupAuthorizationFailedError.errno
    assert writer.add_offsets("group") == GroupAuthorizationFailedError.errno


def test_topics_that_may_not_be_described_are_left_out(writer: Writer) -> None:
    writer.produce(0)
    deny(writer.broker, Operation.DESCRIBE, Resource.TOPIC)
    answer = writer.broker.ask(DescribeTransactionsRequest(["mine"]), 0)
    assert answer.transaction_states[0].topics == []


def test_idempotent_writes_require_permission(broker: SocketlessBroker) -> None:
    deny(broker, Operation.IDEMPOTENT_WRITE, Resource.CLUSTER)
    answer = broker.ask(InitProducerIdRequest(None), 4)
    assert answer.error_code == ClusterAuthorizationFailedError.errno


def test_markers_need_the_right_of_a_broker_or_of_an_admin(writer: Writer) -> None:
    marker = WritableTxnMarker(
        writer.producer[0], 0, True, [WritableTxnMarkerTopic("orders", [0])], 0
    )

    class Nothing(Denying):
        def allows(self, *args: object) -> bool:
            return False

    writer.broker.state.authorizer = Nothing(Operation.ANY, Resource.ANY)
    answer = writer.broker.ask(WriteTxnMarkersRequest([marker]), 1)
    (code,) = (each.error_code for each in answer.markers[0].topics[0].partitions)
    assert code == ClusterAuthorizationFailedError.errno
    request = AddPartitionsToTxnRequest([AddPartitionsToTxnTransaction("mine", *writer.producer)])
    answer = writer.broker.ask(request, 4)
    assert answer.error_code == ClusterAuthorizationFailedError.errno
    deny(writer.broker, Operation.ALTER, Resource.CLUSTER)
    answer = writer.broker.ask(WriteTxnMarkersRequest([marker]), 1)
    assert answer.markers[0].topics[0].partitions[0].error_code == 0


def test_one_partition_that_is_refused_keeps_all_out(writer: Writer) -> None:
    unknown, untried = UnknownTopicOrPartitionError.errno, OperationNotAttempted.errno
    assert writer.add(0, 5) == [untried, unknown]
    assert writer.state == "Empty"


def test_a_partition_that_was_not_added(writer: Writer) -> None:
    assert writer.add(0) == [0]
    codes = {version: writer.produce(0, version=version, partition=1) for version in (3, 10, 11)}
    assert codes == {
        3: InvalidTxnState.errno,
        10: InvalidTxnState.errno,
        11: TransactionAbortableError.errno,
    }
    assert writer.produce(0, version=12, partition=1) == 0
    assert writer.commit_offsets("group", 5, 3) == InvalidTxnState.errno
    assert writer.commit_offsets("group", 5, 4) == TransactionAbortableError.errno
    assert writer.commit_offsets("group", 5, 5) == 0


def test_a_transaction_hangs_where_nothing_is_verified() -> None:
    broker = SocketlessBroker(broker_configs={"transaction.partition.verification.enable": False})
    broker.state.create_topic("orders", 1)
    writer = Writer(broker)
    writer.init()
    writer.add(0)
    assert writer.produce(0, version=11) == 0
    writer.end(version=4)
    assert writer.produce(1, version=11) == 0  # late, from the transaction that has ended
    assert writer.commit_offsets("group", 5) == 0
    assert (writer.state, writer.partition().last_stable_offset) == ("CompleteCommit", 2)
    topics = [WritableTxnMarkerTopic("orders", [0])]
    marker = WritableTxnMarker(*writer.producer, False, topics, 0)
    broker.ask(WriteTxnMarkersRequest([marker]), 1)  # what an admin's abortTransaction sends
    assert writer.partition().last_stable_offset == 4
    assert writer.partition().aborted_between(0, 4) == [(writer.producer[0], 2)]


def test_a_group_is_part_of_the_transaction_until_its_marker(writer: Writer) -> None:
    assert writer.add_offsets("group") == 0
    assert writer.commit_offsets("group", 5) == 0
    group = writer.broker.state.groups.get("group")
    assert group is not None
    assert (group.offsets.find("orders", 0), group.offsets.has_pending("orders", 0)) == (None, True)
    writer.end()
    found = group.offsets.find("orders", 0)
    assert found is not None
    assert (found.offset, group.offsets.has_pending("orders", 0)) == (5, False)
    assert writer.commit_offsets("group", 9, 5) == 0
    writer.end(committed=False)
    assert group.offsets.find("orders", 0) == found
    assert writer.commit_offsets("group", 9) == InvalidTxnState.errno


def test_batches_of_two_producers_in_one_request(writer: Writer) -> None:
    batches = [
        make_batch(producer_id=each, producer_epoch=0, base_sequence=0, transactional=True)
        for each in (0, 1)
    ]
    data = [PartitionProduceData(index, batch) for index, batch in enumerate(batches)]
    topics = [TopicProduceData("orders", partition_data=data)]
    answer = writer.broker.ask(ProduceRequest("mine", -1, 1000, topics), 9)
    codes = [each.error_code for each in answer.responses[0].partition_responses]
    assert codes == [InvalidProducerIdMapping.errno] * 2


def test_an_internal_topic_is_not_written_to(broker: SocketlessBroker) -> None:
    broker.state.create_topic("__consumer_offsets", 1)
    topics = [
        TopicProduceData(
            "__consumer_offsets", partition_data=[PartitionProduceData(0, make_batch())]
        )
    ]
    answer = broker.ask(ProduceRequest(None, -1, 1000, topics), 9)
    assert answer.responses[0].partition_responses[0].error_code == InvalidTopicError.errno


def test_a_forgotten_producer_may_begin_at_any_sequence(writer: Writer) -> None:
    quiet = Writer(writer.broker, "quiet")
    quiet.init()
    for each in (writer, quiet):
        each.produce(0)
    quiet.end()
    transactions = writer.broker.state.transactions
    for each in (writer, quiet):
        transactions.expire_producer_id(each.producer[0])
    table = writer.partition().producers.all()
    assert list(table) == [writer.producer[0]], "one that is open stays"
    assert writer.produce(1) == 0


def test_producers_expire_by_the_clock(broker: SocketlessBroker) -> None:
    def write(producer_id: int, sequence: int) -> int:
        batch = make_batch(
            (NOW_MS, None, b""), producer_id=producer_id, producer_epoch=0, base_sequence=sequence
        )
        topics = [TopicProduceData("orders", partition_data=[PartitionProduceData(0, batch)])]
        answer = broker.ask(ProduceRequest(None, -1, 1000, topics), 9)
        return int(answer.responses[0].partition_responses[0].error_code)

    known = broker.state.topics["orders"].partitions[0].producers.all()
    assert write(7, 0) == 0
    broker.clock.advance(86_399)
    assert write(8, 0) == 0
    assert list(known) == [7, 8]
    broker.clock.advance(600)
    assert write(8, 1) == 0
    assert list(known) == [8], "its batches' own timestamps count"
    assert write(7, 5) == 0


def test_markers_go_to_leaders(three_brokers: SocketlessBroker) -> None:
    three_brokers.state.create_topic("few", 1, 1)
    three_brokers.state.create_topic("orders", 1)
    topics = [WritableTxnMarkerTopic(name, [0, 3]) for name in ("few", "orders")]
    request = WriteTxnMarkersRequest([WritableTxnMarker(5, 0, True, topics, 0)])
    unknown, elsewhere = UnknownTopicOrPartitionError.errno, NotLeaderForPartitionError.errno
    for node, codes in ((0, [0, 0]), (1, [unknown, elsewhere])):
        (marker,) = three_brokers.ask(request, 1, node).markers
        assert [topic.partitions[0].error_code for topic in marker.topics] == codes
        assert [topic.partitions[1].error_code for topic in marker.topics] == [unknown] * 2
    request.markers[0].producer_epoch = -1
    (marker,) = three_brokers.ask(request, 1, 0).markers
    assert marker.topics[0].partitions[0].error_code == UnknownError.errno


def test_each_broker_lists_its_own_transactions(three_brokers: SocketlessBroker) -> None:
    names = [f"id-{number}" for number in range(12)]
    for name in names:
        for node in range(3):
            Writer(three_brokers, name, node).init()
    listed = [
        [each.transactional_id for each in answer.transaction_states]
        for answer in (three_brokers.ask(ListTransactionsRequest(), 0, node) for node in range(3))
    ]
    assert sorted(name for part in listed for name in part) == sorted(names)
    assert all(listed)


def test_patterns(writer: Writer) -> None:
    def listed(pattern: str | None) -> int:
        answer = writer.broker.ask(ListTransactionsRequest(transactional_id_pattern=pattern), 2)
        return answer.error_code or len(answer.transaction_states)

    assert [listed(pattern) for pattern in (None, "", "mi.*", "mi", "in")] == [1, 1, 1, 0, 0]
    assert listed("mi(") == InvalidRegularExpressionError.errno


def test_an_empty_transactional_id(broker: SocketlessBroker) -> None:
    nameless = Writer(broker, "")
    invalid = InvalidRequestError.errno
    assert nameless.init() == invalid
    assert nameless.add(0) == [invalid]
    assert nameless.add_offsets("group") == invalid
    assert nameless.end() == invalid
    assert nameless.state == str(invalid)


Ask = Callable[[Writer], int]

APIS: list[tuple[ApiKey, Ask]] = [
    (ApiKey.INIT_PRODUCER_ID, lambda writer: writer.init()),
    (ApiKey.ADD_PARTITIONS_TO_TXN, lambda writer: writer.add(0)[0]),
    (ApiKey.ADD_OFFSETS_TO_TXN, lambda writer: writer.add_offsets("group")),
    (ApiKey.TXN_OFFSET_COMMIT, lambda writer: writer.commit_offsets("group", 5)),
    (ApiKey.END_TXN, lambda writer: writer.end()),
    (ApiKey.PRODUCE, lambda writer: writer.produce(0)),
    (ApiKey.DESCRIBE_TRANSACTIONS, lambda writer: int(writer.state)),
]


@pytest.mark.parametrize(("key", "ask"), APIS, ids=[key.name for key, _ in APIS])
def test_an_injected_error_is_answered_and_nothing_is_done(
    writer: Writer, key: ApiKey, ask: Ask
) -> None:
    nothing: dict[str, Any] = dict.fromkeys(
        ("node", "when", "partitions", "respond_with", "edit", "tamper")
    )
    calm = {"after_handling": False, "delay": 0.0, "drop": False, "disconnect": False}
    writer.broker.control.faults.append(Fault(key, times=1, error=14, **nothing, **calm))
    transactions = writer.broker.state.transactions
    (before,) = (str(each.to_json()) for each in transactions.all())
    assert ask(writer) == 14
    (after,) = (str(each.to_json()) for each in transactions.all())
    assert after == before


@pytest.mark.parametrize("index", [-1, 50])
def test_a_marker_for_a_partition_of_offsets_that_is_not_there(
    broker: SocketlessBroker, index: int
) -> None:
    topics = [WritableTxnMarkerTopic("__consumer_offsets", [index, 49])]
    request = WriteTxnMarkersRequest([WritableTxnMarker(5, 0, True, topics, 0)])
    (answer,) = broker.ask(request, 1).markers
    partitions = answer.topics[0].partitions
    assert [each.error_code for each in partitions] == [3, 0]

"""Behaviour of generated messages, except their bytes, which the Java client checks."""

import copy
import pickle

import pytest

from aiokafka_lite.errors import KafkaProtocolError, UnsupportedVersionError
from aiokafka_lite.protocol.message import Message
from aiokafka_lite.protocol.messages.alter_user_scram_credentials import ScramCredentialUpsertion
from aiokafka_lite.protocol.messages.create_delegation_token import CreateDelegationTokenResponse
from aiokafka_lite.protocol.messages.fetch import FetchResponse, PartitionData
from aiokafka_lite.protocol.messages.list_offsets import ListOffsetsPartition
from aiokafka_lite.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from aiokafka_lite.protocol.messages.offset_fetch import OffsetFetchRequest
from aiokafka_lite.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from aiokafka_lite.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from aiokafka_lite.protocol.primitives import ZERO_UUID, Reader


def encoded(message: Message, version: int) -> bytes:
    out = bytearray()
    message.encode(out, version)
    return bytes(out)


def test_fields_are_keyword_or_positional_with_the_schemas_defaults() -> None:
    request = ProduceRequest(acks=-1, topic_data=[TopicProduceData("orders")])
    assert request.transactional_id is None
    assert request.timeout_ms == 0
    assert request.topic_data[0].partition_data == []
    assert MetadataRequestTopic(name="a") == MetadataRequestTopic(ZERO_UUID, "a")


def test_default_lists_are_not_shared() -> None:
    first, second = MetadataRequest(), MetadataRequest()
    assert first.topics is not None
    first.topics.append(MetadataRequestTopic(name="a"))
    assert second.topics == []
    assert MetadataRequest(topics=None).topics is None


def test_equality_and_repr() -> None:
    one = ListOffsetsPartition(partition_index=1, timestamp=-2)
    same = ListOffsetsPartition(1, -1, -2)
    assert one == same
    assert one != ListOffsetsPartition(2, -1, -2)
    assert one != "ListOffsetsPartition"
    same.unknown_tagged_fields = {9: b""}
    assert one != same
    assert repr(one) == (
        "ListOffsetsPartition(partition_index=1, current_leader_epoch=-1, timestamp=-2, "
        "max_num_offsets=1)"
    )
    assert repr(same).endswith("unknown_tagged_fields={9: b''})")
    with pytest.raises(TypeError):
        hash(one)


def test_a_repr_does_not_show_records() -> None:
    data = PartitionProduceData(0, records=b"x" * 100_000)
    assert repr(data) == "PartitionProduceData(index=0, records=<100000 bytes>)"
    assert "<3 bytes>" in repr(PartitionData(records=memoryview(b"abc")))


def test_messages_can_be_copied_and_pickled() -> None:
    request = MetadataRequest([MetadataRequestTopic(name="a")])
    request.unknown_tagged_fields = {7: b"x"}
    for clone in (copy.deepcopy(request), pickle.loads(pickle.dumps(request))):
        assert clone == request
        assert clone is not request


def test_only_schema_fields_can_be_set() -> None:
    with pytest.raises(AttributeError):
        MetadataRequest().topcis = []  # type: ignore[attr-defined]  # the typo is the test


@pytest.mark.parametrize(
    ("message", "version", "field"),
    [
        (ProduceRequest(transactional_id="tx"), 2, "transactional_id='tx'"),
        (MetadataRequest(allow_auto_topic_creation=False), 3, "allow_auto_topic_creation=False"),
        (MetadataRequest(topics=None), 0, "topics=None"),
        (OffsetFetchRequest(require_stable=True), 6, "require_stable=True"),
    ],
)
def test_field_unsupported_by_the_version_raises(
    message: Message, version: int, field: str
) -> None:
    with pytest.raises(UnsupportedVersionError, match=field):
        message.encode(bytearray(), version)
    assert encoded(message, message.max_version if "Offset" not in message.name else 7)


def test_ignorable_field_unsupported_by_the_version_is_omitted() -> None:
    full = MetadataResponse(cluster_id="c", throttle_time_ms=5)
    assert encoded(full, 0) == encoded(MetadataResponse(), 0)


def test_tagged_fields_need_a_flexible_version() -> None:
    request = MetadataRequest()
    request.unknown_tagged_fields = {3: b"later"}
    assert encoded(request, 9).endswith(b"\x01\x03\x05later")
    with pytest.raises(UnsupportedVersionError, match="unknown_tagged_fields"):
        request.encode(bytearray(), 8)


def test_fields_of_other_versions_decode_to_their_defaults() -> None:
    raw = encoded(MetadataResponse(), 0)
    decoded = MetadataResponse.decode(Reader(raw), 0)
    assert decoded.controller_id == -1
    assert decoded.cluster_id is None
    assert decoded.unknown_tagged_fields == {}


def test_records_are_slices_of_the_received_bytes() -> None:
    response = ProduceRequest(
        topic_data=[TopicProduceData("t", partition_data=[PartitionProduceData(3, b"batch")])]
    )
    raw = encoded(response, 9)
    records = ProduceRequest.decode(Reader(raw), 9).topic_data[0].partition_data[0].records
    assert isinstance(records, memoryview)
    assert records.obj is raw
    assert records == b"batch"


def test_a_known_tagged_field_must_fill_its_size() -> None:
    """FetchResponse 16 has tag 0, the node endpoints: here its size is one byte too long."""
    body = bytes.fromhex("00000000" + "0000" + "00000000" + "01" + "01" + "00" + "02" + "0100")
    with pytest.raises(KafkaProtocolError, match="tagged field 0 ends at byte"):
        FetchResponse.decode(Reader(body), 16)


@pytest.mark.parametrize("secret", [b"\0ann\0s3cret", bytearray(b"s3cret"), b"s3cret" * 50])
def test_no_repr_shows_a_secret(secret: bytes) -> None:
    request = SaslAuthenticateRequest(bytes(secret))
    assert repr(request) == f"SaslAuthenticateRequest(auth_bytes=<{len(secret)} bytes>)"
    token = CreateDelegationTokenResponse(token_id="t1", hmac=bytes(secret))
    assert "s3cret" not in repr(token)
    assert "token_id='t1'" in repr(token)
    upsertion = ScramCredentialUpsertion(name="ann", salt=b"s3cret", salted_password=bytes(secret))
    assert "s3cret" not in repr(upsertion)

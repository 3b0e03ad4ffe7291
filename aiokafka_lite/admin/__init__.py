"""The admin client under aiokafka's names, and the types of its arguments and results."""

from aiokafka_lite.admin.brokers.cluster import BrokerDescription, ClusterDescription
from aiokafka_lite.admin.client import AIOKafkaAdminClient
from aiokafka_lite.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka_lite.admin.core.authorized_operations import AclOperation
from aiokafka_lite.admin.core.results import Results
from aiokafka_lite.admin.groups.listing import ConsumerGroupListing, GroupListing, GroupListings
from aiokafka_lite.admin.new_partitions import NewPartitions
from aiokafka_lite.admin.new_topic import NewTopic
from aiokafka_lite.admin.records_to_delete import RecordsToDelete
from aiokafka_lite.admin.topics.creation import (
    CreatedTopic,
    CreatedTopicConfig,
    CreateTopicsResult,
    DeleteTopicsResult,
    TopicError,
    TopicErrorCode,
)
from aiokafka_lite.admin.topics.description import TopicListing

__all__ = [
    "AIOKafkaAdminClient",
    "AclOperation",
    "BrokerDescription",
    "ClusterDescription",
    "ConfigResource",
    "ConfigResourceType",
    "ConsumerGroupListing",
    "CreateTopicsResult",
    "CreatedTopic",
    "CreatedTopicConfig",
    "DeleteTopicsResult",
    "GroupListing",
    "GroupListings",
    "NewPartitions",
    "NewTopic",
    "RecordsToDelete",
    "Results",
    "TopicError",
    "TopicErrorCode",
    "TopicListing",
]

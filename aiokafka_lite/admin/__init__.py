"""The admin client under aiokafka's names, and the types of its arguments and results."""

from aiokafka_lite.admin.brokers.cluster_description import BrokerDescription, ClusterDescription
from aiokafka_lite.admin.brokers.feature_levels import (
    FeatureLevels,
    FeatureMetadata,
    FeatureUpdate,
    FeatureUpgradeType,
)
from aiokafka_lite.admin.brokers.quorum import QuorumInfo, QuorumReplica, RaftVoterEndpoint
from aiokafka_lite.admin.client import AIOKafkaAdminClient
from aiokafka_lite.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka_lite.admin.configs.client_quotas import (
    ClientQuotaEntity,
    ClientQuotaFilterComponent,
    ClientQuotaMatch,
)
from aiokafka_lite.admin.configs.config_types import (
    AlterConfigOp,
    AlterConfigsResponse,
    AlterConfigsResult,
    AlteredResource,
    ConfigEntry,
    ConfigSource,
    ConfigSynonym,
    ConfigType,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribedResource,
)
from aiokafka_lite.admin.core.authorized_operations import AclOperation
from aiokafka_lite.admin.core.results import Results
from aiokafka_lite.admin.groups.group_offsets import GroupOffsets
from aiokafka_lite.admin.groups.group_types import (
    ClassicGroupDescription,
    ClassicMemberDescription,
    ConsumerGroupDescription,
    DescribedGroup,
    DescribedMember,
    DescribeGroupsResult,
    GroupMemberDescription,
)
from aiokafka_lite.admin.groups.lag import PartitionLag
from aiokafka_lite.admin.groups.listing import ConsumerGroupListing, GroupListing, GroupListings
from aiokafka_lite.admin.groups.producer_transactions import (
    ProducerDescription,
    TransactionDescription,
    TransactionListing,
    TransactionListings,
)
from aiokafka_lite.admin.groups.share_groups import (
    ShareGroupDescription,
    ShareGroupOffset,
    ShareMemberDescription,
)
from aiokafka_lite.admin.groups.streams_groups import (
    StreamsGroupDescription,
    StreamsMemberDescription,
    StreamsNodeType,
    StreamsSubtopology,
    StreamsTasks,
    StreamsTopic,
    StreamsTopology,
    StreamsTopologyDescription,
    StreamsTopologyNode,
    TopologyDescriptionStatus,
)
from aiokafka_lite.admin.groups.transaction_ends import AbortTransactionSpec, FencedProducer
from aiokafka_lite.admin.new_partitions import NewPartitions
from aiokafka_lite.admin.new_topic import NewTopic
from aiokafka_lite.admin.records_to_delete import RecordsToDelete
from aiokafka_lite.admin.security.acl_types import (
    AclBinding,
    AclBindingFilter,
    AclPermission,
    PatternType,
    ResourcePattern,
    ResourcePatternFilter,
    ResourceType,
)
from aiokafka_lite.admin.security.acls import DeleteAclsResult
from aiokafka_lite.admin.security.delegation_tokens import DelegationToken
from aiokafka_lite.admin.security.scram_users import (
    ScramCredential,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)
from aiokafka_lite.admin.topics.creation import (
    CreatedTopic,
    CreatedTopicConfig,
    CreateTopicsResult,
    DeleteTopicsResult,
    TopicError,
    TopicErrorCode,
)
from aiokafka_lite.admin.topics.description import (
    PartitionDescription,
    TopicDescription,
    TopicListing,
)
from aiokafka_lite.admin.topics.elections import ElectionType
from aiokafka_lite.admin.topics.ensuring import EnsuredTopic, TopicDifference
from aiokafka_lite.admin.topics.log_dirs import (
    LogDirDescription,
    ReplicaInfo,
    ReplicaLogDirInfo,
    TopicPartitionReplica,
)
from aiokafka_lite.admin.topics.partitions import CreatePartitionsResult
from aiokafka_lite.admin.topics.reassignments import PartitionReassignment
from aiokafka_lite.admin.topics.records import OffsetInfo, OffsetSpec

__all__ = [
    "AIOKafkaAdminClient",
    "AbortTransactionSpec",
    "AclBinding",
    "AclBindingFilter",
    "AclOperation",
    "AclPermission",
    "AlterConfigOp",
    "AlterConfigsResponse",
    "AlterConfigsResult",
    "AlteredResource",
    "BrokerDescription",
    "ClassicGroupDescription",
    "ClassicMemberDescription",
    "ClientQuotaEntity",
    "ClientQuotaFilterComponent",
    "ClientQuotaMatch",
    "ClusterDescription",
    "ConfigEntry",
    "ConfigResource",
    "ConfigResourceType",
    "ConfigSource",
    "ConfigSynonym",
    "ConfigType",
    "ConsumerGroupDescription",
    "ConsumerGroupListing",
    "CreatePartitionsResult",
    "CreateTopicsResult",
    "CreatedTopic",
    "CreatedTopicConfig",
    "DelegationToken",
    "DeleteAclsResult",
    "DeleteTopicsResult",
    "DescribeConfigsResponse",
    "DescribeConfigsResult",
    "DescribeGroupsResult",
    "DescribedGroup",
    "DescribedMember",
    "DescribedResource",
    "ElectionType",
    "EnsuredTopic",
    "FeatureLevels",
    "FeatureMetadata",
    "FeatureUpdate",
    "FeatureUpgradeType",
    "FencedProducer",
    "GroupListing",
    "GroupListings",
    "GroupMemberDescription",
    "GroupOffsets",
    "LogDirDescription",
    "NewPartitions",
    "NewTopic",
    "OffsetInfo",
    "OffsetSpec",
    "PartitionDescription",
    "PartitionLag",
    "PartitionReassignment",
    "PatternType",
    "ProducerDescription",
    "QuorumInfo",
    "QuorumReplica",
    "RaftVoterEndpoint",
    "RecordsToDelete",
    "ReplicaInfo",
    "ReplicaLogDirInfo",
    "ResourcePattern",
    "ResourcePatternFilter",
    "ResourceType",
    "Results",
    "ScramCredential",
    "ScramMechanism",
    "ShareGroupDescription",
    "ShareGroupOffset",
    "ShareMemberDescription",
    "StreamsGroupDescription",
    "StreamsMemberDescription",
    "StreamsNodeType",
    "StreamsSubtopology",
    "StreamsTasks",
    "StreamsTopic",
    "StreamsTopology",
    "StreamsTopologyDescription",
    "StreamsTopologyNode",
    "TopicDescription",
    "TopicDifference",
    "TopicError",
    "TopicErrorCode",
    "TopicListing",
    "TopicPartitionReplica",
    "TopologyDescriptionStatus",
    "TransactionDescription",
    "TransactionListing",
    "TransactionListings",
    "UserScramCredentialDeletion",
    "UserScramCredentialUpsertion",
]

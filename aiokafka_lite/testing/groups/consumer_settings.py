"""What a consumer group goes by: its own configurations, or else the brokers'. No I/O."""

from aiokafka_lite.errors import UnsupportedVersionError
from aiokafka_lite.testing.configs.broker_configs import BrokerConfigs
from aiokafka_lite.testing.configs.group_configs import GroupConfigs
from aiokafka_lite.testing.features import Features

__all__ = ["ConsumerSettings", "check_enabled"]


class ConsumerSettings:
    """Looked up at each use, as they may be changed while the group lives.

    Args:
        group_id: The group.
        brokers: The configurations of the brokers.
        groups: Those of groups that have their own.
    """

    def __init__(self, group_id: str, brokers: BrokerConfigs, groups: GroupConfigs) -> None:
        self._group_id = group_id
        self._brokers = brokers
        self._groups = groups

    @property
    def session_timeout_ms(self) -> int:
        """How long a member may be silent."""
        return self._groups.integer(self._group_id, "consumer.session.timeout.ms")

    @property
    def heartbeat_interval_ms(self) -> int:
        """How often members are told to report."""
        return self._groups.integer(self._group_id, "consumer.heartbeat.interval.ms")

    @property
    def assignment_interval_ms(self) -> int:
        """The least time between two target assignments: one takes in several joins (KIP-1263)."""
        return self._groups.integer(self._group_id, "consumer.assignment.interval.ms")

    @property
    def max_size(self) -> int:
        """The most members of a group."""
        return self._brokers.integer("group.consumer.max.size")

    @property
    def classic_max_size(self) -> int:
        """The most members of a classic group."""
        return self._brokers.integer("group.max.size")

    @property
    def assignors(self) -> list[str]:
        """Those that members may ask for; the first is the default."""
        return self._brokers.members("group.consumer.assignors")

    @property
    def may_upgrade(self) -> bool:
        """A classic group with members may become a consumer group."""
        return self._migration in ("upgrade", "bidirectional")

    @property
    def may_downgrade(self) -> bool:
        """A consumer group whose members are all classic ones may become a classic group."""
        return self._migration in ("downgrade", "bidirectional")

    @property
    def may_mix(self) -> bool:
        """Members of the classic protocol may join a consumer group."""
        return self._migration != "disabled"

    @property
    def _migration(self) -> str:
        return self._brokers("group.consumer.migration.policy").lower()


def check_enabled(features: Features, brokers: BrokerConfigs) -> None:
    """Refuse the protocol where the cluster has not enabled it.

    Raises:
        UnsupportedVersionError: `group.version` is at level 0, or the brokers leave it out of
            `group.coordinator.rebalance.protocols`.
    """
    protocols = brokers.members("group.coordinator.rebalance.protocols")
    if not features.level("group.version") or "consumer" not in protocols:
        raise UnsupportedVersionError("the consumer group protocol is not enabled")

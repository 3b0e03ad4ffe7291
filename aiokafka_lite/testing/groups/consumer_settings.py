"""The settings of a consumer group: its own configurations, or else the brokers'. No I/O."""

from aiokafka_lite.errors import UnsupportedVersionError
from aiokafka_lite.testing.configs.broker_configs import BrokerConfigs
from aiokafka_lite.testing.configs.group_configs import GroupConfigs
from aiokafka_lite.testing.features import Features

__all__ = ["ConsumerSettings", "check_enabled"]


class ConsumerSettings:
    """Settings of a group, looked up at each use because they may change.

    Args:
        group_id: The group.
        brokers: The configurations of the brokers.
        groups: The configurations of groups.
    """

    def __init__(self, group_id: str, brokers: BrokerConfigs, groups: GroupConfigs) -> None:
        self._group_id = group_id
        self._brokers = brokers
        self._groups = groups

    @property
    def session_timeout_ms(self) -> int:
        """The session timeout of a member."""
        return self._groups.integer(self._group_id, "consumer.session.timeout.ms")

    @property
    def heartbeat_interval_ms(self) -> int:
        """The heartbeat interval of members."""
        return self._groups.integer(self._group_id, "consumer.heartbeat.interval.ms")

    @property
    def assignment_interval_ms(self) -> int:
        """The minimum time between two target assignments, which batches joins (KIP-1263)."""
        return self._groups.integer(self._group_id, "consumer.assignment.interval.ms")

    @property
    def max_size(self) -> int:
        """The maximum number of members of a group."""
        return self._brokers.integer("group.consumer.max.size")

    @property
    def classic_max_size(self) -> int:
        """The maximum number of members of a classic group."""
        return self._brokers.integer("group.max.size")

    @property
    def assignors(self) -> list[str]:
        """The assignors that members may request; the first is the default."""
        return self._brokers.members("group.consumer.assignors")

    @property
    def may_upgrade(self) -> bool:
        """True if a classic group with members may become a consumer group."""
        return self._migration in ("upgrade", "bidirectional")

    @property
    def may_downgrade(self) -> bool:
        """True if a consumer group with only classic members may become a classic group."""
        return self._migration in ("downgrade", "bidirectional")

    @property
    def may_mix(self) -> bool:
        """True if members of the classic protocol may join a consumer group."""
        return self._migration != "disabled"

    @property
    def _migration(self) -> str:
        return self._brokers("group.consumer.migration.policy").lower()


def check_enabled(features: Features, brokers: BrokerConfigs) -> None:
    """Check that the cluster enables the consumer protocol.

    Raises:
        UnsupportedVersionError: `group.version` is at level 0, or the brokers leave it out of
            `group.coordinator.rebalance.protocols`.
    """
    protocols = brokers.members("group.coordinator.rebalance.protocols")
    if not features.level("group.version") or "consumer" not in protocols:
        raise UnsupportedVersionError("the consumer group protocol is not enabled")

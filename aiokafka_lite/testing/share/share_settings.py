"""The settings of a share group: its own configurations, or else the brokers'. No I/O."""

import re
from typing import Final

from aiokafka_lite.errors import UnsupportedVersionError
from aiokafka_lite.testing.configs.broker_configs import BrokerConfigs
from aiokafka_lite.testing.configs.group_configs import GroupConfigs
from aiokafka_lite.testing.features import Features

__all__ = ["DEAD_LETTERS_SINCE", "ShareSettings", "check_share_enabled"]

DEAD_LETTERS_SINCE: Final = 2  # share.version
_PART: Final = re.compile(r"(\d+(?:\.\d+)?)([DHMS])")
_SECONDS: Final = {"D": 86_400, "H": 3600, "M": 60, "S": 1}


class ShareSettings:
    """Settings of a group, looked up at each use because they may change.

    Args:
        group_id: The group.
        brokers: The configurations of the brokers.
        groups: The configurations of groups.
        features: The cluster's features.
    """

    def __init__(
        self, group_id: str, brokers: BrokerConfigs, groups: GroupConfigs, features: Features
    ) -> None:
        self._group_id = group_id
        self._brokers = brokers
        self._groups = groups
        self._features = features

    @property
    def session_timeout_ms(self) -> int:
        """The session timeout of a member."""
        return self._integer("share.session.timeout.ms")

    @property
    def heartbeat_interval_ms(self) -> int:
        """The heartbeat interval of members."""
        return self._integer("share.heartbeat.interval.ms")

    @property
    def assignment_interval_ms(self) -> int:
        """The minimum time between two assignments."""
        return self._integer("share.assignment.interval.ms")

    @property
    def max_size(self) -> int:
        """The maximum number of members."""
        return self._brokers.integer("group.share.max.size")

    @property
    def lock_duration_ms(self) -> int:
        """How long a member may hold a record."""
        return self._integer("share.record.lock.duration.ms")

    @property
    def max_locks(self) -> int:
        """The maximum number of records in flight in a partition."""
        return self._integer("share.partition.max.record.locks")

    @property
    def delivery_limit(self) -> int:
        """The maximum number of deliveries of a record."""
        return self._integer("share.delivery.count.limit")

    @property
    def may_renew(self) -> bool:
        """True if members may renew their locks (KIP-1222)."""
        return self._groups(self._group_id, "share.renew.acknowledge.enable") == "true"

    @property
    def reads_committed(self) -> bool:
        """True if members receive only records of committed transactions."""
        return self._groups(self._group_id, "share.isolation.level") == "read_committed"

    @property
    def offset_reset(self) -> str | float:
        """Where the group begins: "earliest", "latest", or how many seconds ago."""
        value = self._groups(self._group_id, "share.auto.offset.reset")
        if not value.startswith("by_duration:"):
            return value
        return sum(float(number) * _SECONDS[unit] for number, unit in _PART.findall(value))

    @property
    def dead_letter_topic(self) -> str | None:
        """The topic for archived records; None if there is none (KIP-1191)."""
        if self._features.level("share.version") < DEAD_LETTERS_SINCE:
            return None
        return self._groups(self._group_id, "errors.deadletterqueue.topic.name") or None

    @property
    def copies_dead_letters(self) -> bool:
        """True if dead letters contain the keys and values of their records."""
        return self._groups(self._group_id, "errors.deadletterqueue.copy.record.enable") == "true"

    def _integer(self, name: str) -> int:
        return self._groups.integer(self._group_id, name)


def check_share_enabled(features: Features) -> None:
    """Check that the cluster enables share groups.

    Raises:
        UnsupportedVersionError: `share.version` is at level 0.
    """
    if not features.level("share.version"):
        raise UnsupportedVersionError("share groups are not enabled")

"""The types and limits of configuration values. No I/O.

Values are parsed like in Kafka's `ConfigDef`: integers within their Java type, "true" and "false"
in any case, lists separated by commas; surrounding blanks are ignored.
"""

import re
from collections.abc import Collection
from enum import IntEnum
from typing import Final, NamedTuple

from aiokafka_lite.errors import InvalidConfigurationError

__all__ = ["ConfigType", "Setting", "listed"]


class ConfigType(IntEnum):
    """`config_type` of DescribeConfigs v3+ (`DescribeConfigsResponse.ConfigType`)."""

    UNKNOWN = 0
    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


_BITS: Final = {ConfigType.SHORT: 16, ConfigType.INT: 32, ConfigType.LONG: 64}
_WHOLE_NUMBER: Final = re.compile(r"[+-]?[0-9]+")


def listed(value: str) -> list[str]:
    """Return the members of a list in text form."""
    return [member.strip() for member in value.split(",")] if value.strip() else []


class Setting(NamedTuple):
    """The definition of a configuration.

    Attributes:
        name: Kafka's name.
        type: The type of its value.
        default: The default value; None for null.
        least: The minimum of a number.
        most: The maximum of a number.
        choices: The valid values, or members of a list.
        dynamic: True if it may be changed while the broker runs.
    """

    name: str
    type: ConfigType
    default: str | None
    least: float | None = None
    most: float | None = None
    choices: Collection[str] = ()
    dynamic: bool = True

    @property
    def sensitive(self) -> bool:
        """True if its value is never returned."""
        return self.type is ConfigType.PASSWORD

    def check(self, value: str) -> str:
        """Validate a value and return it as Kafka formats it.

        Raises:
            InvalidConfigurationError: The value is invalid.
        """
        value = value.strip()
        if self.type is ConfigType.BOOLEAN:
            if value.lower() not in ("true", "false"):
                raise self._refusal(value, "Expected value to be either true or false")
            return value.lower()
        if self.type in _BITS or self.type is ConfigType.DOUBLE:
            number = self._number(value)
            self._check_range(value, number)
            return str(number)
        if self.type is ConfigType.LIST:
            members = list(dict.fromkeys(listed(value)))
            for member in members:
                self._check_choice(member)
            return ",".join(members)
        self._check_choice(value)
        return value

    def _number(self, value: str) -> float:
        if self.type is ConfigType.DOUBLE:
            try:
                return float(value.rstrip("dDfF"))
            except ValueError:
                raise self._refusal(value, "Not a number of type DOUBLE") from None
        bits = _BITS[self.type]
        if _WHOLE_NUMBER.fullmatch(value):
            number = int(value)
            if -(1 << bits - 1) <= number < 1 << bits - 1:
                return number
        raise self._refusal(value, f"Not a number of type {self.type.name}")

    def _check_range(self, value: str, number: float) -> None:
        if self.least is not None and number < self.least:
            raise self._refusal(value, f"Value must be at least {self.least}")
        if self.most is not None and number > self.most:
            raise self._refusal(value, f"Value must be no more than {self.most}")

    def _check_choice(self, value: str) -> None:
        if self.choices and value not in self.choices:
            raise self._refusal(value, f"Value must be one of {', '.join(sorted(self.choices))}")

    def _refusal(self, value: str, why: str) -> InvalidConfigurationError:
        return InvalidConfigurationError(
            f"Invalid value {value} for configuration {self.name}: {why}"
        )

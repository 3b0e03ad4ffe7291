"""Every exception this package raises, under aiokafka's names.

- `base`: the two base classes, and the flags that say how a caller can react to an error;
- `table`: Kafka's error codes, their names and traits;
- `client_errors`: errors that the client itself raises;
- `data`, `groups`, `transactions`, `security`, `cluster_errors`: one class for each code.

`for_code` maps a code from the wire to its class.
"""

from typing import Final

from aiokafka_lite.errors import base, data, groups, security, transactions
from aiokafka_lite.errors import client_errors as client
from aiokafka_lite.errors import cluster_errors as cluster
from aiokafka_lite.errors.base import *  # noqa: F403
from aiokafka_lite.errors.base import BrokerResponseError, classes_by_code
from aiokafka_lite.errors.client_errors import *  # noqa: F403
from aiokafka_lite.errors.cluster_errors import *  # noqa: F403
from aiokafka_lite.errors.cluster_errors import UnknownError
from aiokafka_lite.errors.data import *  # noqa: F403
from aiokafka_lite.errors.data import CorruptRecordException
from aiokafka_lite.errors.groups import *  # noqa: F403
from aiokafka_lite.errors.groups import (
    GroupCoordinatorNotAvailableError,
    GroupLoadInProgressError,
    NotCoordinatorForGroupError,
)
from aiokafka_lite.errors.security import *  # noqa: F403
from aiokafka_lite.errors.transactions import *  # noqa: F403

# aiokafka's aliases of these classes.
InvalidMessageError = CorruptRecordException
CoordinatorLoadInProgressError = GroupLoadInProgressError
CoordinatorNotAvailableError = GroupCoordinatorNotAvailableError
NotCoordinatorError = NotCoordinatorForGroupError

kafka_errors: Final[dict[int, type[BrokerResponseError]]] = classes_by_code()
"""Code on the wire -> class, for every code of Kafka 4.4.0."""


def for_code(error_code: int) -> type[BrokerResponseError]:
    """Return the class of a code from the wire, `UnknownError` for a code not in this release."""
    return kafka_errors.get(error_code, UnknownError)


__all__ = [
    "CoordinatorLoadInProgressError",
    "CoordinatorNotAvailableError",
    "InvalidMessageError",
    "NotCoordinatorError",
    "for_code",
    "kafka_errors",
]
__all__ += base.__all__
__all__ += client.__all__
__all__ += cluster.__all__
__all__ += data.__all__
__all__ += groups.__all__
__all__ += security.__all__
__all__ += transactions.__all__

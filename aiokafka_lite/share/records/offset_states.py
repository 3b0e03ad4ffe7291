"""The states of an acquired offset. The first five are also the types on the wire."""

from typing import Final

__all__ = [
    "ABSENT",
    "ACCEPT",
    "DONE",
    "GAP",
    "HELD",
    "IN_FLIGHT",
    "LOST",
    "REJECT",
    "RELEASE",
    "RENEW",
    "RENEWING",
]

GAP: Final = 0  # to send
ACCEPT: Final = 1  # to be sent
RELEASE: Final = 2  # to be sent
REJECT: Final = 3  # to be sent
RENEW: Final = 4  # to be sent; the record stays undecided
HELD: Final = 5  # acquired and undecided
RENEWING: Final = 6  # its renewal is in flight; undecided
IN_FLIGHT: Final = 0x10  # with one of the first four: taken for a request
DONE: Final = 0x20  # the broker has its terminal acknowledgement
LOST: Final = 0x21  # the lock is gone
ABSENT: Final = 0x22  # not acquired

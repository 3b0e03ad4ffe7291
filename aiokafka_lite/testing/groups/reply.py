"""A response that a group may provide later."""

from typing import Generic, TypeVar

from aiokafka_lite.testing.watchers import Watchers

__all__ = ["Reply"]

T = TypeVar("T")


class Reply(Generic[T]):
    """A response that is set once, possibly before anyone waits for it.

    Attributes:
        answer: The response; None until it is set.
        watchers: Notified when it is set.
    """

    __slots__ = ("answer", "watchers")

    def __init__(self) -> None:
        self.answer: T | None = None
        self.watchers = Watchers()

    def send(self, answer: T) -> None:
        """Set the response.

        Raises:
            RuntimeError: It is already set.
        """
        if self.answer is not None:
            raise RuntimeError("the request was already answered")
        self.answer = answer
        self.watchers.notify()

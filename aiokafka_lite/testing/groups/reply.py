"""An answer that a group gives when it is ready; whoever serves the request waits for it."""

from typing import Generic, TypeVar

from aiokafka_lite.testing.watchers import Watchers

__all__ = ["Reply"]

T = TypeVar("T")


class Reply(Generic[T]):
    """Filled once, perhaps before anybody looks.

    Attributes:
        answer: None until it is known.
        watchers: Told when it is.
    """

    __slots__ = ("answer", "watchers")

    def __init__(self) -> None:
        self.answer: T | None = None
        self.watchers = Watchers()

    def send(self, answer: T) -> None:
        """Answer; a second time would be a defect.

        Raises:
            RuntimeError: It was answered before.
        """
        if self.answer is not None:
            raise RuntimeError("the request was already answered")
        self.answer = answer
        self.watchers.notify()

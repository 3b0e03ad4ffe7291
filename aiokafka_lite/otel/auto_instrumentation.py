"""The entry point `opentelemetry_instrumentor`: instruments every new producer, consumer and
share consumer."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import wraps
from typing import Any, ClassVar, Final

from aiokafka_lite import AIOKafkaConsumer, AIOKafkaProducer, AIOKafkaShareConsumer
from aiokafka_lite.otel.instrumentation import instrument

__all__ = ["KafkaInstrumentor"]

_CLASSES: Final[tuple[type, ...]] = (*(AIOKafkaProducer, AIOKafkaConsumer, AIOKafkaShareConsumer),)


class KafkaInstrumentor:
    """Instruments the producers and consumers that are created from now on.

    `opentelemetry-instrument` finds it by its entry point. It has the methods of
    `opentelemetry.instrumentation.instrumentor.BaseInstrumentor`, which this package does not need.
    """

    _originals: ClassVar[dict[type, Callable[..., None]]] = {}

    def instrumentation_dependencies(self) -> Collection[str]:
        """Return the packages that must be installed: none besides this one."""
        return ()

    def instrument(self, **options: Any) -> None:
        """Begin. A second call does nothing.

        Args:
            **options: `tracer_provider` and `meter_provider`; others are ignored.
        """
        if self._originals:
            return
        known = {name: options.get(name) for name in ("tracer_provider", "meter_provider")}
        for each in _CLASSES:
            self._originals[each] = each.__init__  # type: ignore[misc]  # of the class itself
            each.__init__ = _instrumenting(each.__init__, known)  # type: ignore[misc]

    def uninstrument(self, **options: Any) -> None:
        """End; clients that exist stay instrumented."""
        for each, original in self._originals.items():
            each.__init__ = original  # type: ignore[misc]  # of the class itself
        self._originals.clear()


def _instrumenting(original: Callable[..., None], known: dict[str, Any]) -> Callable[..., None]:
    @wraps(original)
    def __init__(self: Any, *arguments: Any, **options: Any) -> None:
        original(self, *arguments, **options)
        instrument(self, **known)

    # The constructor looks there for the nearest name of an unknown argument.
    vars_of: Any = __init__
    vars_of.__kwdefaults__ = getattr(original, "__kwdefaults__", None)
    return __init__

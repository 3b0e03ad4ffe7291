"""aiokafka's import path of `BatchBuilder`."""

from aiokafka_lite.producer.batching.batch_builder import BatchBuilder

__all__ = ["BatchBuilder"]

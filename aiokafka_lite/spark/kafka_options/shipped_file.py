"""A file that Spark ships to executors, found on the machine where it is used."""

from __future__ import annotations

import os
from dataclasses import dataclass

__all__ = ["ShippedFile"]


@dataclass(frozen=True, slots=True)
class ShippedFile(os.PathLike[str]):
    """A path that is resolved where a client is created.

    A relative path may be in the working directory, as on YARN, or among the files of `spark-submit
    --files` and `SparkContext.addFile`.

    Attributes:
        path: The path as the user wrote it.
    """

    path: str

    def __fspath__(self) -> str:
        if os.path.isabs(self.path) or os.path.exists(self.path):
            return self.path
        try:
            from pyspark import SparkFiles

            shipped = SparkFiles.get(os.path.basename(self.path))
        except (ImportError, AttributeError, AssertionError):
            return self.path  # this process is not a Spark worker
        return shipped if os.path.exists(shipped) else self.path

    def __str__(self) -> str:
        return self.path

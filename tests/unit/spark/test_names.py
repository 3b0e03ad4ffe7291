"""The names that `aiokafka_lite.spark` offers are imported on first use."""

import pytest

from aiokafka_lite import spark


@pytest.mark.parametrize("name", spark.__all__)
def test_every_public_name_can_be_imported(name: str) -> None:
    pytest.importorskip("pyspark")
    assert getattr(spark, name).__name__ == name

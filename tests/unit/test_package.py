"""All public names of the package exist and are imported on first access."""

import subprocess
import sys

import pytest

import aiokafka_lite


def test_every_public_name_is_importable() -> None:
    for name in aiokafka_lite.__all__:
        assert getattr(aiokafka_lite, name) is not None
    assert set(aiokafka_lite.__all__) <= set(dir(aiokafka_lite))
    with pytest.raises(AttributeError, match="no attribute 'AIOKafkaProduce'"):
        aiokafka_lite.AIOKafkaProduce  # noqa: B018 (the access is the test)


@pytest.mark.parametrize(
    ("code", "not_imported"),
    [
        ("import aiokafka_lite.testing", ["aiokafka_lite.producer", "aiokafka_lite.consumer"]),
        ("from aiokafka_lite import AIOKafkaProducer", ["aiokafka_lite.consumer"]),
        ("import aiokafka_lite", ["aiokafka_lite.errors", "asyncio"]),
    ],
)
def test_import_loads_only_requested_modules(code: str, not_imported: list[str]) -> None:
    check = f"{code}; import sys; print([n for n in {not_imported!r} if n in sys.modules])"
    done = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, timeout=60)
    assert (done.stdout.strip(), done.stderr) == ("[]", "")


def test_submodules_are_reachable_from_the_package() -> None:
    code = (
        "import aiokafka_lite; "
        "print(aiokafka_lite.errors.KafkaError.__name__,"
        " aiokafka_lite.structs.TopicPartition('a', 0))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == "KafkaError TopicPartition(topic='a', partition=0)"

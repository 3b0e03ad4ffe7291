"""CRC-32C uses the right polynomial in every installation."""

import subprocess
import sys

import pytest

from aiokafka_lite.record.crc32c import crc32c


# RFC 3720, appendix B.4.
@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", 0),
        (b"123456789", 0xE3069283),
        (bytes(32), 0x8A9136AA),
        (b"\xff" * 32, 0x62A8AB43),
        (bytes(range(32)), 0x46DD794E),
    ],
)
def test_known_values(data, expected):
    assert crc32c(data) == crc32c(memoryview(bytearray(data))) == expected


@pytest.mark.parametrize(
    "order",
    [
        "import crc32c as package; from aiokafka_lite.record.crc32c import crc32c",
        "from aiokafka_lite.record.crc32c import crc32c; import crc32c as package",
    ],
)
def test_crc32c_package_coexists(order):
    code = f"{order}\nprint(crc32c(b'x') == package.crc32c(b'x') != 0, package.__version__)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert run.stdout.startswith("True "), run.stderr

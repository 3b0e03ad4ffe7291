"""murmur2, both builds, equal to Java's."""

import pytest

# org.apache.kafka.common.utils.UtilsTest: keys and Java's signed results.
GOLDEN = {
    b"21": -973932308,
    b"foobar": -790332482,
    b"a-little-bit-long-string": -985981536,
    b"a-little-bit-longer-string": -1486304829,
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    b"abc": 479470107,
}


@pytest.mark.parametrize(("key", "java"), GOLDEN.items())
def test_golden_values(build, key, java):
    assert build.murmur2(key) == java & 0xFFFFFFFF
    assert build.murmur2(bytearray(key)) == build.murmur2(memoryview(key)) == java & 0xFFFFFFFF


def test_both_builds_agree_on_every_length_remainder(native, twin):
    for size in range(70):
        key = bytes(range(200, 200 + min(size, 56))) + bytes(max(0, size - 56))
        assert native.murmur2(key) == twin.murmur2(key)


@pytest.mark.parametrize("key", [None, "text", 5])
def test_non_buffers_raise(build, key):
    with pytest.raises(TypeError):
        build.murmur2(key)

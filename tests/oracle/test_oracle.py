"""A random sample of messages, compared with the Java client: see tools/oracle."""

import pytest

from tools.oracle import judge
from tools.oracle.java import class_path, java
from tools.protocol_gen.jars import RELEASES, JarsUnavailable

pytestmark = [pytest.mark.java, pytest.mark.timeout(300)]

CASES = 3000
SEED = 20261121


@pytest.fixture(scope="module", autouse=True)
def java_client() -> None:
    try:
        java()
        for release in RELEASES:
            class_path(release)
    except JarsUnavailable as reason:
        pytest.skip(f"the Java client cannot judge: {reason}")


def test_messages_encode_and_decode_as_in_java() -> None:
    cases = judge.sample(judge.known_messages(), CASES, SEED)
    assert len(cases) >= CASES
    failed = judge.judge(cases)
    assert not failed, "\n".join(f"{case}: {problem[:500]}" for case, problem in failed[:10])


def test_judge_detects_a_wrong_byte() -> None:
    case = judge.sample(judge.known_messages(), 1, SEED)[0]
    answer = (case.ours() or b"").hex()
    assert judge.verdict(case, answer) is None
    assert judge.verdict(case, answer + "00") is not None
    assert judge.verdict(case, "! NullPointerException") is not None

"""The cache of API versions by broker address."""

from aiokafka_lite.net.api_version_cache import Known, KnownBrokers


def test_remembers_and_forgets_by_address() -> None:
    brokers = KnownBrokers()
    assert brokers.recall("a", 9092) is None
    brokers.remember("a", 9092, Known(api_versions=3))
    brokers.remember("a", 9093, Known(release="0.9"))
    assert brokers.recall("a", 9092) == Known(3, None)
    brokers.forget("a", 9092)
    brokers.forget("b", 1)
    assert brokers.recall("a", 9092) is None
    assert brokers.recall("a", 9093) == Known(-1, "0.9")


def test_broker_that_looks_old_twice_is_believed_while_others_are_tried() -> None:
    brokers = KnownBrokers()
    assert not brokers.believes("a", 9092, Known(release="0.9"))
    assert not brokers.believes("b", 9092, Known(release="0.9"))
    assert brokers.believes("a", 9092, Known(release="0.9"))
    assert not brokers.believes("b", 9092, Known(release="0.8.2"))  # another release each time
    brokers.remember("a", 9092, Known(release="0.9"))
    assert brokers.believes("b", 9092, Known(release="0.9"))
    assert not brokers.believes("b", 9092, Known(0, plain=True))  # says nothing about proxies


def test_answer_to_api_versions_clears_the_suspicion() -> None:
    brokers = KnownBrokers()
    assert not brokers.believes("a", 9092, Known(release="0.9"))
    brokers.remember("a", 9092, Known(api_versions=4))
    brokers.forget("a", 9092)
    assert not brokers.believes("a", 9092, Known(release="0.9"))
    assert brokers.believes("a", 9092, Known(release="0.9"))


def test_guess_does_not_replace_what_another_connection_was_answered() -> None:
    brokers = KnownBrokers()
    guess = Known(0, plain=True)
    assert not brokers.believes("a", 9092, guess)
    brokers.remember("a", 9092, Known(api_versions=4))
    assert not brokers.believes("a", 9092, guess)
    brokers.remember("a", 9092, guess)
    assert brokers.recall("a", 9092) == Known(4)

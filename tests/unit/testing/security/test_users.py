"""Users are created and deleted, and the journal keeps them."""

import pytest

from aiokafka_lite.testing.security.credentials import derive
from aiokafka_lite.testing.security.users import Users
from tests.unit.testing.remembering import Remembering


def test_putting_and_removing() -> None:
    users = Users(lambda: b"salt")
    users.put("alice", "one")
    users.put("bob", "two", ["SCRAM-SHA-256"])
    assert users.password_of("alice") == "one"
    assert users.password_of("bob") is None
    assert users.credential("bob", "SCRAM-SHA-512") is None
    assert users.credential("bob", "SCRAM-SHA-256") == derive("SCRAM-SHA-256", "two", b"salt", 4096)
    assert list(users.scram_users()) == ["alice", "bob"]
    users.put("alice", "three", ["PLAIN"])
    assert users.password_of("alice") == "three"
    users.remove("alice")
    users.remove("alice")
    assert users.password_of("alice") is None
    assert list(users.scram_users()) == ["bob"]


@pytest.mark.parametrize(
    ("name", "password", "mechanism"),
    [("", "x", "PLAIN"), ("x", "", "PLAIN"), ("x", "y", "GSSAPI")],
)
def test_invalid_users_are_refused(name: str, password: str, mechanism: str) -> None:
    with pytest.raises(ValueError, match="password"):
        Users(lambda: b"salt").put(name, password, [mechanism])


def test_the_journal_remembers() -> None:
    journal = Remembering()
    users = Users(lambda: b"salt", journal)
    users.put("alice", "one")
    credential = derive("SCRAM-SHA-512", "other", b"pepper", 8192)
    users.put_credential("bob", "SCRAM-SHA-512", credential)
    users.put("carol", "gone")
    users.remove("carol")
    again = Users(lambda: b"other", journal)
    assert again.password_of("alice") == "one"
    for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
        assert again.credential("alice", mechanism) == users.credential("alice", mechanism)
    assert again.credential("bob", "SCRAM-SHA-512") == credential
    assert list(again.scram_users()) == ["alice", "bob"]
    assert again.password_of("carol") is None

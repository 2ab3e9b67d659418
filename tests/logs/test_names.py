"""Names of logs, and errors for misspelt names."""

from pathlib import Path

import pytest

from controlplane.logs.log import LogNotUsable
from controlplane.logs.names import brokers_of, check_file, path_of, without_login


@pytest.mark.parametrize("where", ["", " "])
def test_an_empty_name_is_refused(where: str) -> None:
    """An empty name, such as an unset variable, is not the current directory."""
    with pytest.raises(LogNotUsable, match="no log is named: give kafka://host:port"):
        path_of(where)


@pytest.mark.parametrize("where", ["memory:", ":memory:", "sqlite:///:memory:"])
def test_the_name_of_a_log_in_memory_is_refused(where: str) -> None:
    """`memory:` is refused where the log would end with the command."""
    with pytest.raises(LogNotUsable, match=f"^{where} is a log in memory, which ends"):
        path_of(where)


@pytest.mark.parametrize("where", ["127.0.0.1:9092", "broker-1.example.org:9092,b2:9092"])
def test_an_address_without_a_scheme_is_refused(where: str) -> None:
    """The error for an address without a scheme suggests the scheme."""
    with pytest.raises(LogNotUsable, match=f"does not exist: for a cluster say kafka://{where}"):
        check_file(path_of(where))


def test_a_wrong_number_of_slashes_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the other number of slashes leads to a file, the error says so."""
    (tmp_path / "log.db").write_bytes(b"x")
    absolute = str(tmp_path / "log.db")
    with pytest.raises(LogNotUsable, match=f"sqlite:///{absolute} exists"):
        check_file(path_of(f"sqlite://{absolute}"))
    monkeypatch.chdir(tmp_path)
    with pytest.raises(LogNotUsable, match=r"sqlite:///log\.db exists"):
        check_file(path_of("sqlite:////log.db"))


def test_a_login_is_not_repeated() -> None:
    """A login in the name is refused, and the error shows no part of it."""
    assert brokers_of("kafka://a:1,b:2") == "a:1,b:2"
    with pytest.raises(LogNotUsable) as refused:
        brokers_of("kafka://alice:se@cret@a:1")
    assert "kafka://a:1 is given with a login" in str(refused.value)
    assert "cret" not in str(refused.value)
    assert "alice" not in str(refused.value)
    assert without_login("a@b.db") == "a@b.db"
    with pytest.raises(LogNotUsable, match=r"^'http://a:1' names no log: give kafka://"):
        path_of("http://alice:se@c/ret@a:1")

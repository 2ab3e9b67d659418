"""Address and credentials of a cluster: they are sent, and never printed."""

import base64
from pathlib import Path

import pytest

from controlplane.client.http.cluster_address import ClusterAddress
from controlplane.terminal.command_errors import InputRefused
from tests.cli.command_calls import call

PASSWORD = "correct-horse"


def test_a_user_with_a_password_is_authenticated() -> None:
    """The client sends basic authentication; the password may contain a colon."""
    header = ClusterAddress(user="ada:a:b").credentials()["authorization"]
    assert base64.b64decode(header.removeprefix("Basic ")) == b"ada:a:b"


def test_the_prompt_for_a_password_is_on_standard_error() -> None:
    """The prompt is on standard error, without echo."""
    result = call("get", "-c", "http://127.0.0.1:1", "--user", "ada", typed=f"{PASSWORD}\n")
    assert "password of ada: " in result.err
    assert PASSWORD not in result.err + result.out


@pytest.mark.parametrize("form", ["{}", "@{}/token"])
def test_a_token_is_given_directly_or_in_a_file(tmp_path: Path, form: str) -> None:
    """A token is given directly or in a file, where others do not see it."""
    (tmp_path / "token").write_text("abc.def\n", "ascii")
    token = form.format(tmp_path) if "@" in form else "abc.def"
    assert ClusterAddress(token=token).credentials() == {"authorization": "Bearer abc.def"}


@pytest.mark.parametrize(
    ("cluster", "says"),
    [
        (ClusterAddress(user="a:b", token="t"), "--user and --token exclude each other"),
        (ClusterAddress(token="a b"), "this is no token"),
        (ClusterAddress(token=""), "this is no token"),
        (ClusterAddress(token="@nix"), "nix cannot be read"),
    ],
)
def test_credentials_that_cannot_be_sent_are_refused(cluster: ClusterAddress, says: str) -> None:
    """The error is one sentence, which does not repeat the credential."""
    with pytest.raises(InputRefused, match=says):
        cluster.credentials()


@pytest.mark.parametrize(
    "words",
    [
        ("-c", f"http://ada:{PASSWORD}@127.0.0.1:1"),
        ("-c", "http://127.0.0.1:1", "--user", f"ada:{PASSWORD}"),
        ("-c", "http://127.0.0.1:1", "--token", PASSWORD),
    ],
)
def test_no_secret_is_printed(words: tuple[str, ...]) -> None:
    """Errors show no password, also if the connection fails."""
    result = call("get", *words)
    assert result.code == 4
    assert "http://127.0.0.1:1 cannot be reached" in result.err
    assert PASSWORD not in result.err + result.out


def test_the_environment_names_the_cluster() -> None:
    """CONTROLPLANE_CLUSTER names the cluster; `-c` overrides it."""
    environment = {"CONTROLPLANE_CLUSTER": "http://127.0.0.1:2"}
    assert "http://127.0.0.1:2 cannot" in call("get", environment=environment).err
    assert (
        "127.0.0.1:1 cannot" in call("get", "-c", "http://127.0.0.1:1", environment=environment).err
    )


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("-c", "http://x:y"), "is no URL"),
        (("-c", "http://"), "http:// is no URL (it names no host): check --cluster"),
        (("-c", "http://127.0.0.1:99999"), "is no URL (ports end at 65535)"),
        (("-c", "nix.db"), "nix.db does not exist"),
        (("-c", "localhost:8083"), "write http://localhost:8083 or https://localhost:8083 for a w"),
        (("-c", f"ada:{PASSWORD}@[::1]:8083/x"), "[::1]:8083/x may be a worker or a broker: "),
        (("-c", "ftp://x"), "names no log"),
        (("-c", "https://127.0.0.1:1", "--ca-file", __file__), "has no certificates"),
    ],
)
def test_addresses_that_name_no_cluster_are_refused(words: tuple[str, ...], says: str) -> None:
    """The error is one sentence with exit code 2."""
    result = call("get", *words)
    assert (result.code, result.out) == (2, "")
    assert says in result.err
    assert PASSWORD not in result.err


def test_no_log_is_made_of_an_address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An address without a scheme creates no file; an existing file of that name is a log."""
    monkeypatch.chdir(tmp_path)
    result = call("pause", "orders", "-c", "localhost:8083")
    assert (result.code, list(tmp_path.iterdir())) == (2, [])
    assert "kafka://localhost:8083 for the topics" in result.err
    (tmp_path / "localhost:8083").touch()
    assert "localhost:8083 is empty" in call("get", "-c", "localhost:8083").err

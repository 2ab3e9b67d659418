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
        (ClusterAddress(user="a:pass0815", token="t"), "--user and --token exclude each other"),
        (ClusterAddress(token="two pass0815"), "this is no token"),
        (ClusterAddress(token=""), "this is no token"),
        (ClusterAddress(token="@nix"), "nix cannot be read"),
        (ClusterAddress(user="ada:pass0815\udcff"), "the user or password is no UTF-8"),
    ],
)
def test_credentials_that_cannot_be_sent_are_refused(cluster: ClusterAddress, says: str) -> None:
    """The error is one sentence, which does not repeat the credential."""
    with pytest.raises(InputRefused, match=says) as refused:
        cluster.credentials()
    assert "pass0815" not in refused.value.message


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


@pytest.mark.parametrize(
    "password", ["se@same", "se/same", "12/@same", "?same", "se#same", "@//:@"]
)
@pytest.mark.parametrize("scheme", ["http", "HTTPS", "kafka", "ftp"])
def test_no_character_of_a_password_ends_it(scheme: str, password: str) -> None:
    """The address for messages has no part of a password, whatever characters it holds."""
    address = ClusterAddress(f"{scheme}://ada:{password}@127.0.0.1:1/connect")
    assert address.without_login == f"{scheme}://127.0.0.1:1/connect"


@pytest.mark.parametrize("where", ["sqlite:///a@b.db", "a@b.db", "./x://a@b.db"])
def test_the_path_of_a_log_has_no_login(where: str) -> None:
    """The path of an embedded log may have an `@`."""
    assert ClusterAddress(where).without_login == where


@pytest.mark.parametrize("command", [["get", "-c"], ["plugins", "harvest", "--worker"]])
@pytest.mark.parametrize(
    ("password", "mark"), [("xyzzy/plugh", "/"), ("xyzzy?plugh", "?"), ("xyzzy#plugh", "#")]
)
def test_a_password_that_breaks_its_url_is_not_shown(
    command: list[str], password: str, mark: str
) -> None:
    """The error says how the character is written, and shows no part of the password."""
    result = call(*command, f"http://ada:{password}@127.0.0.1:1")
    assert result.code == 2
    says = "http://127.0.0.1:1 is no URL (write /, ? and # in a login as %2F, %3F and %23): check"
    assert says in result.err
    assert not any(part in result.err for part in password.split(mark))


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
        (("-c", "http://x/?expand=info"), "is no URL (leave out ? or #, and what follows): check"),
        (("-c", "http://x?"), "is no URL (leave out ? or #, and what follows): check"),
        (("-c", "http://x/#top"), "is no URL (leave out ? or #, and what follows): check"),
        (("-c", "nix.db"), "nix.db does not exist"),
        (("-c", "localhost:8083"), "write http://localhost:8083 or https://localhost:8083 for a w"),
        (("-c", f"ada:{PASSWORD}@[::1]:8083/x"), "[::1]:8083/x may be a worker or a broker: "),
        (("-c", f"ada:x@{PASSWORD}@h:8083"), "h:8083 may be a worker or a broker: "),
        (
            ("-c", "htp://x"),
            "Error: 'htp://x' names no worker and no log: give http://host:port or https://host:p",
        ),
        (("-c", f"ftp://ada:{PASSWORD}@x"), "'ftp://x' names no worker and no log: give http://"),
        (("-c", "sqlite://"), "'sqlite://' names no log: give kafka://host:port, sqlite:///path"),
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

"""Lines for credential files: printed lines are valid input."""

import os
import pty
import subprocess
import sys

import click
import pytest

from controlplane.rest.security.credential_hashes import password_line, token_line
from controlplane.rest.security.roles import Role
from controlplane.terminal import prompts
from controlplane.terminal.command_errors import InputRefused
from tests.cli.command_calls import ROOT, call

PASSWORD = ("credential", "password", "größe", "--role", "operate")


def test_a_terminal_prompts_twice_for_a_password() -> None:
    """A terminal prompts twice without echo; the printed line fits the password."""
    ours, theirs = pty.openpty()
    words = [sys.executable, "-m", "controlplane", *PASSWORD]
    process = subprocess.Popen(
        words, cwd=ROOT, stdin=theirs, stdout=subprocess.PIPE, stderr=theirs, start_new_session=True
    )
    os.close(theirs)
    shown = b""
    for question in (b"Password: ", b"Repeat for confirmation: "):
        while question not in shown:
            shown += os.read(ours, 1_024)
        os.write(ours, b"s3cret\n")
    printed = process.communicate()[0].decode()
    os.close(ours)
    assert process.returncode == 0
    assert "s3cret" not in printed + shown.decode()
    _fits(printed, "s3cret")


@pytest.mark.parametrize(
    "typed", ["caf\udce9", UnicodeDecodeError("utf-8", b"caf\xe9", 3, 4, "invalid")]
)
def test_a_password_typed_in_another_encoding_is_refused(
    monkeypatch: pytest.MonkeyPatch, typed: str | UnicodeDecodeError
) -> None:
    """A terminal that sends no UTF-8 is the user's mistake, not a defect of the program."""

    def prompt(_: str, **__: object) -> str:
        if isinstance(typed, UnicodeDecodeError):
            raise typed
        return typed

    monkeypatch.setattr(click, "prompt", prompt)
    with pytest.raises(InputRefused, match="the password is no UTF-8"):
        prompts.password("Password")


def test_a_bad_name_is_refused_before_the_password() -> None:
    """The user does not type a password in vain."""
    result = call("credential", "password", "a:b", "--role", "view")
    assert (result.code, "the name 'a:b' cannot be used" in result.err) == (2, True), result


def test_a_program_writes_a_password_once() -> None:
    """Standard input is read once, without a prompt; only the line is printed."""
    result = call(*PASSWORD, typed=" s3 cret \n")
    assert (result.code, result.err) == (0, "")
    _fits(result.out, " s3 cret ")


def test_an_empty_password_is_refused() -> None:
    """An empty password on standard input is refused, with exit code 2."""
    result = call(*PASSWORD, typed="\n")
    assert (result.code, result.out) == (2, "")
    assert "standard input has no password" in result.err


@pytest.mark.parametrize("charset", ["utf-8:strict", "utf-8:surrogateescape", "ascii:strict"])
def test_a_password_in_another_encoding_is_refused(charset: str) -> None:
    """A line that is no UTF-8 is refused; the error shows no part of it."""
    words = [sys.executable, "-m", "controlplane", *PASSWORD]
    environment = {**os.environ, "PYTHONIOENCODING": charset}
    result = subprocess.run(
        words, cwd=ROOT, input=b"secr\xfft\n", capture_output=True, env=environment, check=False
    )
    assert (result.returncode, result.stdout) == (2, b"")
    says = b"Error: the password on standard input is no UTF-8: encode it\n"
    assert result.stderr == says


def _fits(line: str, password: str) -> None:
    kept = password_line(line.strip())
    assert (kept.name, kept.role) == ("größe", Role.OPERATE)
    assert kept.hash.fits(password)


def test_a_token_is_shown_once() -> None:
    """The token is printed apart from its line, and differs each time."""
    result, again = (call("credential", "token", "ci", "--role", "administer") for _ in range(2))
    kept = token_line(result.out.strip())
    prefix, _, token = result.err.strip().rpartition(" ")
    assert prefix == "Authorization: Bearer"
    assert kept.hash.fits(token)
    assert token not in result.out
    assert result.err != again.err


@pytest.mark.parametrize("name", ["a:b", "", "#ann", " ann", "a\nb"])
def test_names_that_do_not_fit_into_a_line_are_refused(name: str) -> None:
    """A name is refused if it is empty, has a colon or line break, or begins with `#` or space."""
    result = call("credential", "token", name, "--role", "view")
    assert result.code == 2
    assert "cannot be used: use printable characters without a colon" in result.err
    assert result.out == ""


def test_unknown_roles_are_refused() -> None:
    """An unknown role is refused with the list of the valid roles."""
    result = call("credential", "token", "ann", "--role", "root")
    assert result.code == 2
    assert "'view', 'operate', 'administer'" in result.err

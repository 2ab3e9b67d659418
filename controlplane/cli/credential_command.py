"""`controlplane credential`: lines for the files of those who may come in."""

import secrets
import sys

import click

from controlplane.rest.security.credential_hashes import (
    BadCredentialLine,
    Credential,
    Hash,
    Scrypt,
    TokenHash,
    check_name,
)
from controlplane.rest.security.roles import Role
from controlplane.terminal.command_errors import InputRefused
from controlplane.terminal.option_names import Decorated
from controlplane.terminal.output import note, say

TOKEN_BYTES = 32
"""Random bytes in a token, too many to guess."""


@click.group()
def credential() -> None:
    """Make a line for `auth.password.file` or `auth.token.file`.

    What is printed on standard output is the line; append it to the file. Who serves reads the file
    again by itself. To take a credential back, delete its line.
    """


def _whose(command: Decorated) -> Decorated:
    roles = click.Choice([str(role) for role in Role])
    command = click.option("--role", type=roles, required=True, help="What its owner may do.")(
        command
    )
    return click.argument("name")(command)


@credential.command()
@_whose
def password(name: str, role: str) -> None:
    """A password of NAME, for basic authentication. It is asked for.

    Where standard input is no terminal, its first line is the password.
    """
    _print(name, role, Scrypt.of(_asked() if sys.stdin.isatty() else _piped()))


def _asked() -> str:
    chosen: str = click.prompt("Password", hide_input=True, confirmation_prompt=True, err=True)
    return chosen


def _piped() -> str:
    chosen = sys.stdin.readline().rstrip("\r\n")
    if not chosen:
        raise InputRefused("there is no password on standard input: write it there, on a line")
    return chosen


@credential.command()
@_whose
def token(name: str, role: str) -> None:
    """A new token of NAME. It is shown once, on standard error, and kept nowhere."""
    made = secrets.token_urlsafe(TOKEN_BYTES)
    _print(name, role, TokenHash.of(made))
    note(f"Authorization: Bearer {made}")


def _print(name: str, role: str, kept: Hash) -> None:
    try:
        say(str(Credential(check_name(name), Role.of(role), kept)))
    except BadCredentialLine as bad:
        raise InputRefused(str(bad)) from None

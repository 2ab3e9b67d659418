"""The command `credential`: create lines for the password and token files of `serve`."""

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
from controlplane.terminal import prompts
from controlplane.terminal.command_errors import InputRefused
from controlplane.terminal.option_names import Decorated
from controlplane.terminal.output import note, say

TOKEN_BYTES = 32
"""Random bytes in a token: too many to guess."""


@click.group()
def credential() -> None:
    """Create a line for `auth.password.file` or `auth.token.file`.

    Append the line to the file; `serve` reads the file again by itself. Delete a line to revoke its
    credential.
    """


def _owner_options(command: Decorated) -> Decorated:
    """Add NAME and `--role`; the command gets `name` and `role`."""
    roles = click.Choice([str(role) for role in Role])
    command = click.option(
        "--role", type=roles, required=True, help="Role of NAME: which requests are allowed."
    )(command)
    return click.argument("name", callback=_usable_name)(command)


def _usable_name(_: click.Context, __: click.Parameter, name: str) -> str:
    """Refuse a name that no credential can have, before the user types a password.

    Raises:
        InputRefused: the message says why.
    """
    try:
        return check_name(name)
    except BadCredentialLine as bad:
        raise InputRefused(str(bad)) from None


@credential.command()
@_owner_options
def password(name: str, role: str) -> None:
    """Create a line with a password of NAME, for basic authentication.

    The command prompts for the password. If standard input is no terminal, its first line is the
    password.
    """
    _print(
        name,
        role,
        Scrypt.of(prompts.password("Password", twice=True) if sys.stdin.isatty() else _piped()),
    )


def _piped() -> str:
    try:
        text = sys.stdin.readline().rstrip("\r\n")
        # In the C locale, Python decodes bytes that are no UTF-8 as surrogates. `encode` refuses
        # them.
        text.encode()
    except UnicodeError:
        raise InputRefused("the password on standard input is no UTF-8: encode it") from None
    if not text:
        raise InputRefused("standard input has no password: write it on the first line")
    return text


@credential.command()
@_owner_options
def token(name: str, role: str) -> None:
    """Create a line with a new token of NAME, for bearer authentication.

    The token itself is printed once, on standard error, and stored nowhere.
    """
    text = secrets.token_urlsafe(TOKEN_BYTES)
    _print(name, role, TokenHash.of(text))
    note(f"Authorization: Bearer {text}")


def _print(name: str, role: str, secret: Hash) -> None:
    say(str(Credential(name, Role.of(role), secret)))

"""A protected application, its users, and the credentials of its clients."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx

from controlplane.core.releases.profiles import Profile
from controlplane.plane import ControlPlane
from controlplane.rest.security.credential_hashes import Credential, Hash, Scrypt, TokenHash
from controlplane.rest.security.middleware import Protection, protected
from controlplane.rest.security.roles import Role
from controlplane.rest.security.settings import AuthSettings

NAMES = {"vera": Role.VIEW, "otto": Role.OPERATE, "ada": Role.ADMINISTER}
"""Users and their roles; the name is the password, `token-of-NAME` the token."""

TOKENS = {name: f"token-of-{name}" for name in NAMES}

_CHEAP = Scrypt(1, 1, 1, b"salt", bytes(32))
"""The cheapest scrypt parameters; they suit tests only."""


def cheap(password: str) -> Scrypt:
    """A hash with these cheapest parameters."""
    return _CHEAP._replace(digest=_CHEAP.digest_of(password))


def write_credentials(path: Path, hashes: dict[str, Hash], roles: dict[str, Role] = NAMES) -> str:
    """Write a file of these credentials and return its path."""
    lines = [str(Credential(name, roles[name], hashes[name])) for name in hashes]
    path.write_text("# who may come in\n\n" + "\n".join(lines) + "\n", "utf-8")
    return str(path)


def auth_settings(directory: Path, **settings: Any) -> AuthSettings:
    """Settings with the credential files of all users."""
    return AuthSettings(
        password_file=write_credentials(
            directory / "passwords", {name: cheap(name) for name in NAMES}
        ),
        token_file=write_credentials(
            directory / "tokens", {name: TokenHash.of(TOKENS[name]) for name in NAMES}
        ),
        **settings,
    )


@asynccontextmanager
async def guarded(
    protection: Protection, *, peer: str = "192.0.2.1"
) -> AsyncIterator[httpx.AsyncClient]:
    """A client at this address, of a protected control plane without connectors."""
    async with ControlPlane.open("memory:") as plane:
        app = protected(plane.app, protection, dialect=Profile.of("kip"))
        transport = httpx.ASGITransport(app, client=(peer, 1))
        async with httpx.AsyncClient(transport=transport, base_url="http://connect") as client:
            yield client

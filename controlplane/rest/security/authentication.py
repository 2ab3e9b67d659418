"""Authentication of callers: by password, by token, or by a trusted proxy."""

import asyncio
import hmac
import secrets
from base64 import b64decode
from collections.abc import Callable, Iterable, Mapping, Sequence
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from pathlib import Path
from typing import NamedTuple

from starlette.datastructures import Headers

from controlplane.observe import Logger
from controlplane.projection.lru_cache import LruCache
from controlplane.rest.security.credential_files import CredentialFile
from controlplane.rest.security.credential_hashes import (
    Credential,
    Scrypt,
    ScryptCost,
    password_line,
    token_line,
)
from controlplane.rest.security.roles import Role
from controlplane.rest.security.settings import AuthSettings, HttpLimits
from controlplane.settings.properties import SettingsError

PROVED_KEPT = 1_000
"""Number of verified passwords to cache: scrypt is slow on purpose, and a client sends its password
with every request."""


class Principal(NamedTuple):
    """An authenticated caller and its role."""

    name: str
    role: Role


class Unproved(Exception):
    """Authentication failed. The message gives no details to an attacker."""


class TooManyProofs(Exception):
    """The queue of passwords that wait for verification is full."""


class Claimant(NamedTuple):
    """Authentication data of a request."""

    headers: Headers
    peer: str | None
    """Address of the connection's other end; None if it has none."""

    def only(self, header: str) -> str | None:
        """Return the value of a header; None if it is missing.

        Raises:
            Unproved: the header is repeated, so its value is ambiguous.
        """
        found = self.headers.getlist(header)
        if len(found) > 1:
            raise Unproved(f"the header {header} is there {len(found)} times")
        return found[0] if found else None


class Identities:
    """Authenticates callers against credential files and trusted proxies."""

    def __init__(self, settings: AuthSettings, limits: HttpLimits, logger: Logger) -> None:
        """Read the credential files.

        Raises:
            SettingsError: a file or an address is invalid, or no proxy is trusted for a header.
        """
        self._settings = settings
        self._passwords = _file("password", settings.password_file, password_line, logger)
        self._tokens = _file("token", settings.token_file, token_line, logger)
        self._proxies = _proxies(settings)
        self._verifying = asyncio.Semaphore(limits.verifications_max)
        self._waiting, self._waiting_max = 0, limits.verifications_waiting_max
        self._proved: LruCache[bytes, bool] = LruCache(PROVED_KEPT)
        self._own_key = secrets.token_bytes()
        self._nobodys = Scrypt.of_nobody()

    async def of(self, asker: Claimant) -> Principal | None:
        """Return the caller; None if the request has no credentials.

        Raises:
            Unproved: the credentials are wrong.
            TooManyProofs: too many passwords wait for verification.
        """
        told = self._told_by_proxy(asker)
        if told is not None:
            return told
        sent = asker.only("authorization")
        if sent is None:
            return self._anonymous()
        scheme, _, proof = sent.strip().partition(" ")
        match scheme.lower():
            case "basic" if self._passwords is not None:
                return await self._with_password(self._passwords.now(), proof.strip())
            case "bearer" if self._tokens is not None:
                return _with_token(self._tokens.now(), proof.strip())
        raise Unproved("the header Authorization is of a kind that is not asked for here")

    def challenges(self) -> Sequence[str]:
        """Return the values of `WWW-Authenticate` (RFC 7617, RFC 6750)."""
        realm = 'realm="controlplane"'
        basic = [f'Basic {realm}, charset="UTF-8"'] if self._passwords is not None else []
        bearer = [f"Bearer {realm}"] if self._tokens is not None else []
        return [*basic, *bearer]

    def _anonymous(self) -> Principal | None:
        role = self._settings.anonymous_role
        return None if role == "none" else Principal("anonymous", Role.of(role))

    # --- a proxy --------------------------------------------------------------------------------

    def _told_by_proxy(self, asker: Claimant) -> Principal | None:
        header, role_header = self._settings.proxy_header, self._settings.proxy_role_header
        if header is None or not self._believes(asker.peer):
            return None
        told = asker.only(header)
        if not told:
            return None
        name = _text(told.encode("latin-1"))  # as it came over the wire
        role = (asker.only(role_header) if role_header else None) or self._settings.proxy_role
        try:
            return Principal(name, Role.of(role.strip()))
        except KeyError:
            raise Unproved("the proxy tells a role that there is not") from None

    def _believes(self, peer: str | None) -> bool:
        try:
            address = ip_address(peer or "")
        except ValueError:
            return False
        mapped = getattr(address, "ipv4_mapped", None) or address  # ::ffff:10.0.0.1 is 10.0.0.1
        return any(mapped in network for network in self._proxies)

    # --- a password -----------------------------------------------------------------------------

    async def _with_password(self, known: Sequence[Credential], proof: str) -> Principal:
        name, password = _name_and_password(proof)
        kept = next((one for one in known if one.name == name), None)
        costs = {one.hash.work: one.hash for one in known if isinstance(one.hash, Scrypt)}
        decoys = costs or {self._nobodys.work: self._nobodys}
        if not await self._fits(kept, decoys, password) or kept is None:
            raise Unproved("the name or the password is not right")
        return Principal(kept.name, kept.role)

    async def _fits(
        self, kept: Credential | None, decoys: Mapping[ScryptCost, Scrypt], password: str
    ) -> bool:
        proof = f"{kept} {password}".encode("utf-8", "surrogatepass")
        key = hmac.digest(self._own_key, proof, "sha256")
        if self._proved.get(key):
            return True
        if self._waiting >= self._waiting_max:
            raise TooManyProofs
        self._waiting += 1
        try:
            async with self._verifying:
                fits = await asyncio.to_thread(_tried, kept, decoys, password)
        finally:
            self._waiting -= 1
        if fits:
            self._proved.put(key, value=True)
        return fits


def _tried(kept: Credential | None, decoys: Mapping[ScryptCost, Scrypt], password: str) -> bool:
    """Return True if a password fits a credential; the credential None fits none.

    A wrong password is also tried once at every other cost of the file's hashes. The time of a
    failed login therefore reveals neither the existing names nor the cost of a name's hash.
    """
    if kept is not None and kept.hash.fits(password):
        return True
    own = kept.hash.work if kept is not None and isinstance(kept.hash, Scrypt) else None
    for work, decoy in decoys.items():
        if work != own:
            decoy.fits(password)
    return False


def _with_token(known: Iterable[Credential], token: str) -> Principal:
    """Return the owner of a token. All tokens are compared, so that timing reveals no match."""
    found = [Principal(one.name, one.role) for one in known if one.hash.fits(token)]
    if not found:
        raise Unproved("the token is not known")
    return found[0]


def _name_and_password(proof: str) -> tuple[str, str]:
    """Decode the credentials of basic authentication; clients without UTF-8 send Latin-1."""
    try:
        raw = b64decode(proof, validate=True)
    except ValueError:
        raise Unproved("the header Authorization holds no Base64") from None
    name, _, password = _text(raw).partition(":")
    return name, password


def _text(raw: bytes) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw.decode("latin-1")


def _file(
    of: str, path: str | None, line: Callable[[str], Credential], logger: Logger
) -> CredentialFile | None:
    """Open the credential file that a setting names.

    Raises:
        SettingsError: the file is invalid. The message begins with the setting.
    """
    try:
        return None if path is None else CredentialFile(Path(path), line, logger)
    except SettingsError as failure:
        raise SettingsError(f"auth.{of}.file: {failure}") from None


def _proxies(settings: AuthSettings) -> Sequence[IPv4Network | IPv6Network]:
    if settings.proxy_header and not settings.proxy_addresses:
        raise SettingsError(
            "auth.proxy.header is to be believed, and auth.proxy.addresses does not say from whom: "
            "anybody could send it"
        )
    try:
        return [ip_network(one, strict=False) for one in settings.proxy_addresses]
    except ValueError as bad:
        raise SettingsError(f"auth.proxy.addresses: {bad}: use 10.0.0.7 or 10.0.0.0/8") from None

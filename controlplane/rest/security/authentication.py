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
from controlplane.rest.http.limits import HttpLimits
from controlplane.rest.security.credential_files import CredentialFile
from controlplane.rest.security.credential_hashes import (
    Credential,
    Scrypt,
    ScryptCost,
    TokenHash,
    password_line,
    token_line,
)
from controlplane.rest.security.roles import Role
from controlplane.rest.security.settings import AuthSettings
from controlplane.settings.errors import SettingsError

VERIFIED_KEPT = 1_000
"""Number of verified passwords to cache: scrypt is slow by design, and a client sends its password
with every request."""


class Principal(NamedTuple):
    """An authenticated caller and its role."""

    name: str
    role: Role


class AuthenticationFailed(Exception):
    """Authentication failed. The message gives no details to an attacker."""


class VerificationQueueFull(Exception):
    """The queue of passwords that wait for verification is full."""


class RequestCredentials(NamedTuple):
    """Headers and peer address, by which a request is authenticated."""

    headers: Headers
    peer: str | None
    """Address of the connection's other end; None if it has none."""

    def only(self, header: str) -> str | None:
        """Return the value of a header; None if it is missing.

        Raises:
            AuthenticationFailed: the header is repeated, so its value is ambiguous.
        """
        values = self.headers.getlist(header)
        if len(values) > 1:
            raise AuthenticationFailed(f"the header {header} is sent {len(values)} times: send one")
        return values[0] if values else None


class Authenticator:
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
        self._verified: LruCache[bytes, bool] = LruCache(VERIFIED_KEPT)
        self._cache_key = secrets.token_bytes()
        """Key of the cache's digests: the cache holds no password, and no hash to attack."""
        self._decoy = Scrypt.decoy()

    async def authenticate(self, credentials: RequestCredentials) -> Principal | None:
        """Return the caller; None: no credentials, and `auth.anonymous.role` is not set.

        Raises:
            AuthenticationFailed: the credentials are wrong.
            VerificationQueueFull: too many passwords wait for verification.
        """
        from_proxy = self._principal_from_proxy(credentials)
        if from_proxy is not None:
            return from_proxy
        authorization = credentials.only("authorization")
        if authorization is None:
            return self._anonymous()
        scheme, _, proof = authorization.strip().partition(" ")
        match scheme.lower():
            case "basic" if self._passwords is not None:
                return await self._with_password(self._passwords.current(), proof.strip())
            case "bearer" if self._tokens is not None:
                return _with_token(self._tokens.current(), proof.strip())
        raise AuthenticationFailed("the scheme of the header Authorization is not accepted here")

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

    def _principal_from_proxy(self, credentials: RequestCredentials) -> Principal | None:
        header, role_header = self._settings.proxy_header, self._settings.proxy_role_header
        if header is None or not self._is_trusted(credentials.peer):
            return None
        value = credentials.only(header)
        if not value:
            return None
        name = _text(value.encode("latin-1"))  # the bytes as sent; they may be UTF-8
        sent_role = credentials.only(role_header) if role_header else None
        role = sent_role or self._settings.proxy_role
        try:
            return Principal(name, Role.of(role.strip()))
        except KeyError:
            raise AuthenticationFailed("the proxy sends an unknown role") from None

    def _is_trusted(self, peer: str | None) -> bool:
        try:
            address = ip_address(peer or "")
        except ValueError:
            return False
        mapped = getattr(address, "ipv4_mapped", None) or address  # ::ffff:10.0.0.1 is 10.0.0.1
        return any(mapped in network for network in self._proxies)

    # --- a password -----------------------------------------------------------------------------

    async def _with_password(self, credentials: Sequence[Credential], proof: str) -> Principal:
        name, password = _name_and_password(proof)
        credential = next((entry for entry in credentials if entry.name == name), None)
        by_cost = {
            entry.hash.cost: entry.hash for entry in credentials if isinstance(entry.hash, Scrypt)
        }
        decoys = by_cost or {self._decoy.cost: self._decoy}
        if not await self._fits(credential, decoys, password) or credential is None:
            raise AuthenticationFailed("the name or the password is wrong")
        return Principal(credential.name, credential.role)

    async def _fits(
        self, credential: Credential | None, decoys: Mapping[ScryptCost, Scrypt], password: str
    ) -> bool:
        # The key covers the stored hash: a login is verified again after its line has changed.
        proof = f"{credential} {password}".encode("utf-8", "surrogatepass")
        key = hmac.digest(self._cache_key, proof, "sha256")
        if self._verified.use(key):
            return True
        if self._waiting >= self._waiting_max:
            raise VerificationQueueFull
        self._waiting += 1
        try:
            async with self._verifying:
                fits = await asyncio.to_thread(_verify, credential, decoys, password)
        finally:
            self._waiting -= 1
        if fits:
            self._verified.put(key, value=True)
        return fits


def _verify(
    credential: Credential | None, decoys: Mapping[ScryptCost, Scrypt], password: str
) -> bool:
    """Return True if a password fits a credential; the credential None fits none.

    A wrong password is also tried once at every other cost of the file's hashes. The time of a
    failed login therefore reveals neither the existing names nor the cost of a name's hash.
    """
    if credential is not None and credential.hash.fits(password):
        return True
    own = None if credential is None else credential.hash
    own_cost = own.cost if isinstance(own, Scrypt) else None
    for cost, decoy in decoys.items():
        if cost != own_cost:
            decoy.fits(password)
    return False


def _with_token(credentials: Iterable[Credential], token: str) -> Principal:
    """Return the owner of a token. All tokens are compared, so that timing reveals no match."""
    digest = TokenHash.of(token).digest  # once: a file may have thousands of tokens
    owners = [
        Principal(entry.name, entry.role)
        for entry in credentials
        if hmac.compare_digest(entry.hash.digest, digest)
    ]
    if not owners:
        raise AuthenticationFailed("the request has an unknown token")
    return owners[0]


def _name_and_password(proof: str) -> tuple[str, str]:
    """Decode the credentials of basic authentication; clients without UTF-8 send Latin-1."""
    try:
        raw = b64decode(proof, validate=True)
    except ValueError:
        raise AuthenticationFailed("the header Authorization is not Base64") from None
    name, _, password = _text(raw).partition(":")
    return name, password


def _text(raw: bytes) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw.decode("latin-1")


def _file(
    kind: str, path: str | None, line: Callable[[str], Credential], logger: Logger
) -> CredentialFile | None:
    """Open the credential file that a setting names.

    Raises:
        SettingsError: the file is invalid. The message begins with the setting.
    """
    try:
        return None if path is None else CredentialFile(Path(path), line, logger)
    except SettingsError as failure:
        raise SettingsError(f"auth.{kind}.file: {failure}") from None


def _proxies(settings: AuthSettings) -> Sequence[IPv4Network | IPv6Network]:
    if settings.proxy_header and not settings.proxy_addresses:
        raise SettingsError(
            "auth.proxy.header is set without auth.proxy.addresses, so every client could send the "
            "header: set auth.proxy.addresses to the proxy's address"
        )
    try:
        return [ip_network(address, strict=False) for address in settings.proxy_addresses]
    except ValueError as bad:
        raise SettingsError(f"auth.proxy.addresses: {bad}: use 10.0.0.7 or 10.0.0.0/8") from None

"""Stored passwords and tokens: hashed, one `name:role:hash` per line.

A password's hash is scrypt's in the PHC string format, `$scrypt$ln=14,r=8,p=1$salt$hash` (Base64
without padding), which other programs use as well. A token is long and random: SHA-256 is enough.
"""

import hashlib
import hmac
import re
import secrets
from base64 import b64decode, b64encode
from collections.abc import Callable
from typing import NamedTuple

from controlplane.rest.security.roles import Role

SALT_BYTES, DIGEST_BYTES = 16, 32

DIGEST_BYTES_LEAST = 16
"""Least bytes of a digest. A hash that is cut off still fits its password, but also many others."""

COST_LOG2, BLOCK, LANES = 14, 8, 1
"""scrypt's N (as a power of two), r and p: 16 MiB and some 50 ms of a core."""

COST_LOG2_MOST, BLOCK_MOST, LANES_MOST = 18, 16, 4
"""Maximum cost of a line; a costlier login would block all others."""

BLOCK_BITS = 16
"""scrypt's N is less than 2 to the power of 16 r (RFC 7914)."""


class BadCredentialLine(ValueError):
    """A line is not a credential. The message names the mistake and never shows the hash."""


class ScryptCost(NamedTuple):
    """Cost of verifying a password: scrypt's N (as a power of two), r and p."""

    cost_log2: int
    block: int
    lanes: int


class Scrypt(NamedTuple):
    """Hash of a password with its parameters and salt."""

    cost_log2: int
    block: int
    lanes: int
    salt: bytes
    digest: bytes

    @classmethod
    def of(cls, password: str) -> "Scrypt":
        """Return a new hash of a password, with a random salt."""
        template = cls.decoy()
        return template._replace(digest=template.digest_of(password))

    @classmethod
    def decoy(cls) -> "Scrypt":
        """Return a decoy hash: no known password fits, and verification costs as much as usual."""
        salt, digest = secrets.token_bytes(SALT_BYTES), secrets.token_bytes(DIGEST_BYTES)
        return cls(COST_LOG2, BLOCK, LANES, salt, digest)

    @property
    def cost(self) -> ScryptCost:
        """Parameters of this hash that decide the cost of verifying a password."""
        return ScryptCost(self.cost_log2, self.block, self.lanes)

    def fits(self, password: str) -> bool:
        """Return True if the hash is this password's. The comparison takes constant time."""
        return hmac.compare_digest(self.digest_of(password), self.digest)

    def digest_of(self, password: str) -> bytes:
        """Return the digest of a password with this hash's parameters and salt."""
        n = 1 << self.cost_log2
        return hashlib.scrypt(
            password.encode("utf-8", "surrogatepass"),
            salt=self.salt,
            n=n,
            r=self.block,
            p=self.lanes,
            maxmem=128 * self.block * (n + self.lanes + 2),  # bytes that OpenSSL needs
            dklen=len(self.digest),
        )

    def __str__(self) -> str:
        parameters = f"ln={self.cost_log2},r={self.block},p={self.lanes}"
        return f"$scrypt${parameters}${_base64(self.salt)}${_base64(self.digest)}"


class TokenHash(NamedTuple):
    """SHA-256 digest of a token; its text is hexadecimal, as in a token file."""

    digest: bytes

    @classmethod
    def of(cls, token: str) -> "TokenHash":
        """Return the hash of a token."""
        return cls(hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest())

    def fits(self, token: str) -> bool:
        """Return True if the hash is this token's. The comparison takes constant time."""
        return hmac.compare_digest(TokenHash.of(token).digest, self.digest)

    def __str__(self) -> str:
        return self.digest.hex()


Hash = Scrypt | TokenHash


class Credential(NamedTuple):
    """A stored credential: its owner, role and hash."""

    name: str
    role: Role
    hash: Hash

    def __str__(self) -> str:
        return f"{self.name}:{self.role}:{self.hash}"


# --- a line -------------------------------------------------------------------------------------

_SCRYPT = re.compile(
    r"\$scrypt\$ln=(?P<cost>[0-9]{1,2}),r=(?P<block>[0-9]{1,2}),p=(?P<lanes>[0-9]{1,2})"
    r"\$(?P<salt>[A-Za-z0-9+/]+)\$(?P<digest>[A-Za-z0-9+/]+)"
)
_SHA256 = re.compile("[0-9a-fA-F]{64}")


def password_line(line: str) -> Credential:
    """Parse a line of a password file. Raises `BadCredentialLine`."""
    return _line(line, _scrypt)


def token_line(line: str) -> Credential:
    """Parse a line of a token file. Raises `BadCredentialLine`."""
    return _line(line, _token)


def check_name(name: str) -> str:
    """Return a valid name of a caller unchanged.

    Raises:
        BadCredentialLine: the name does not fit into a credential line or a log line.
    """
    if not name or ":" in name or name != name.strip() or name[0] == "#" or not name.isprintable():
        raise BadCredentialLine(
            f"the name {name!r} cannot be used: use printable characters without a colon"
        )
    return name


def _line(line: str, hash_of: Callable[[str], Hash]) -> Credential:
    name, _, rest = line.partition(":")
    role_name, colon, text = rest.partition(":")
    if not colon:
        raise BadCredentialLine("expected name:role:hash")
    try:
        role = Role.of(role_name.strip())
    except KeyError:
        roles = ", ".join(map(str, Role))
        raise BadCredentialLine(f"there is no role {role_name.strip()!r}: use {roles}") from None
    return Credential(check_name(name), role, hash_of(text.strip()))


def _scrypt(text: str) -> Scrypt:
    fields = _SCRYPT.fullmatch(text)
    if fields is None:
        raise BadCredentialLine("expected a hash like $scrypt$ln=14,r=8,p=1$salt$hash")
    cost_log2, block, lanes = (int(fields[part]) for part in ("cost", "block", "lanes"))
    bounds = (cost_log2, COST_LOG2_MOST), (block, BLOCK_MOST), (lanes, LANES_MOST)
    if not all(1 <= value <= most for value, most in bounds):
        most = f"ln={COST_LOG2_MOST},r={BLOCK_MOST},p={LANES_MOST}"
        raise BadCredentialLine(f"the cost of its hash is out of range: use from 1 to {most}")
    if cost_log2 >= BLOCK_BITS * block:
        least = cost_log2 // BLOCK_BITS + 1
        raise BadCredentialLine(
            f"scrypt has no hash with ln={cost_log2} and r={block}: use from r={least}"
        )
    salt, digest = _bytes(fields["salt"]), _bytes(fields["digest"])
    if len(digest) < DIGEST_BYTES_LEAST:
        raise BadCredentialLine(
            f"its hash is cut off after {len(digest)} bytes, so other passwords could fit: "
            "restore the whole line"
        )
    return Scrypt(cost_log2, block, lanes, salt, digest)


def _token(text: str) -> TokenHash:
    if not _SHA256.fullmatch(text):
        raise BadCredentialLine("expected a SHA-256 hash in 64 hexadecimal digits")
    return TokenHash(bytes.fromhex(text))


def _base64(raw: bytes) -> str:
    return b64encode(raw).decode("ascii").rstrip("=")


def _bytes(text: str) -> bytes:
    try:
        return b64decode(text + "=" * (-len(text) % 4), validate=True)
    except ValueError:
        raise BadCredentialLine("salt or digest of its hash is not Base64") from None

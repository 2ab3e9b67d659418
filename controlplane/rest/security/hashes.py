"""Passwords and tokens as they are kept: hashed, one `name:role:hash` in a line.

Of a password the hash is scrypt's in the PHC string format, `$scrypt$ln=14,r=8,p=1$salt$hash`
(Base64 without padding), which other programs write and read, too. A token is long and random: its
SHA-256 is enough.
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

COST_LOG2, BLOCK, LANES = 14, 8, 1
"""scrypt's N (as a power of two), r and p: 16 MiB and some 50 ms of a core."""

COST_LOG2_MOST, BLOCK_MOST, LANES_MOST = 18, 16, 4
"""What a line may ask for; with more, one login would stop everybody else."""


class BadLine(ValueError):
    """A line keeps no credential. The message says what is wrong, and nothing of the hash."""


class Work(NamedTuple):
    """Work that it takes to try a password: scrypt's N (as a power of two), r and p."""

    cost_log2: int
    block: int
    lanes: int


class Scrypt(NamedTuple):
    """A password's hash, and what it was made with."""

    cost_log2: int
    block: int
    lanes: int
    salt: bytes
    digest: bytes

    @classmethod
    def of(cls, password: str) -> "Scrypt":
        """A new hash of a password, with a salt of its own."""
        made = cls.of_nobody()
        return made._replace(digest=made.digest_of(password))

    @classmethod
    def of_nobody(cls) -> "Scrypt":
        """A hash that no password is known to fit, and that costs as much to try as another."""
        salt, digest = secrets.token_bytes(SALT_BYTES), secrets.token_bytes(DIGEST_BYTES)
        return cls(COST_LOG2, BLOCK, LANES, salt, digest)

    @property
    def work(self) -> Work:
        """Work that it takes to try a password."""
        return Work(self.cost_log2, self.block, self.lanes)

    def fits(self, password: str) -> bool:
        """Whether it is this password's. How long that takes says nothing of the password."""
        return hmac.compare_digest(self.digest_of(password), self.digest)

    def digest_of(self, password: str) -> bytes:
        """The digest of a password, made as this one was."""
        cost = 1 << self.cost_log2
        return hashlib.scrypt(
            password.encode("utf-8", "surrogatepass"),
            salt=self.salt,
            n=cost,
            r=self.block,
            p=self.lanes,
            maxmem=128 * self.block * (cost + self.lanes + 2),  # what OpenSSL takes
            dklen=len(self.digest),
        )

    def __str__(self) -> str:
        parameters = f"ln={self.cost_log2},r={self.block},p={self.lanes}"
        return f"$scrypt${parameters}${_base64(self.salt)}${_base64(self.digest)}"


class TokenHash(NamedTuple):
    """What is kept of a token."""

    digest: bytes

    @classmethod
    def of(cls, token: str) -> "TokenHash":
        """The hash of a token."""
        return cls(hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest())

    def fits(self, token: str) -> bool:
        """Whether it is this token's. How long that takes says nothing of the token."""
        return hmac.compare_digest(TokenHash.of(token).digest, self.digest)

    def __str__(self) -> str:
        return self.digest.hex()


Hash = Scrypt | TokenHash


class Kept(NamedTuple):
    """Whose credential it is, what he may do, and its hash."""

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


def password_line(line: str) -> Kept:
    """The password that a line keeps. Raises `BadLine`."""
    return _line(line, _scrypt)


def token_line(line: str) -> Kept:
    """The token that a line keeps. Raises `BadLine`."""
    return _line(line, _token)


def check_name(name: str) -> str:
    """A name that somebody can have.

    Raises:
        BadLine: nobody can: it would not fit into a line, or into a log.
    """
    if not name or ":" in name or name != name.strip() or name[0] == "#" or not name.isprintable():
        raise BadLine(f"the name {name!r} cannot be used: take printable letters without a colon")
    return name


def _line(line: str, hash_of: Callable[[str], Hash]) -> Kept:
    name, _, rest = line.partition(":")
    role, colon, kept = rest.partition(":")
    if not colon:
        raise BadLine("it is not of the form name:role:hash")
    try:
        found = Role.of(role.strip())
    except KeyError:
        roles = ", ".join(map(str, Role))
        raise BadLine(f"there is no role {role.strip()!r}: use {roles}") from None
    return Kept(check_name(name), found, hash_of(kept.strip()))


def _scrypt(text: str) -> Scrypt:
    found = _SCRYPT.fullmatch(text)
    if found is None:
        raise BadLine("its hash is not of the form $scrypt$ln=14,r=8,p=1$salt$hash")
    cost_log2, block, lanes = (int(found[part]) for part in ("cost", "block", "lanes"))
    bounds = (cost_log2, COST_LOG2_MOST), (block, BLOCK_MOST), (lanes, LANES_MOST)
    if not all(1 <= asked <= most for asked, most in bounds):
        most = f"ln={COST_LOG2_MOST},r={BLOCK_MOST},p={LANES_MOST}"
        raise BadLine(f"its hash takes more work than is done for one login: at most {most}")
    return Scrypt(cost_log2, block, lanes, _bytes(found["salt"]), _bytes(found["digest"]))


def _token(text: str) -> TokenHash:
    if not _SHA256.fullmatch(text):
        raise BadLine("its hash is no SHA-256 in 64 hexadecimal digits")
    return TokenHash(bytes.fromhex(text))


def _base64(raw: bytes) -> str:
    return b64encode(raw).decode("ascii").rstrip("=")


def _bytes(text: str) -> bytes:
    try:
        return b64decode(text + "=" * (-len(text) % 4), validate=True)
    except ValueError:
        raise BadLine("its hash is no Base64") from None

"""Secrets on their way into an archive: kept, dropped, or encrypted.

A record that holds no secret is archived byte for byte. Of one that does, only the secret values
change, and each release reads it as it read what it was (`secrets_in_json`). Which values are
secrets is what hides them from people, too (`core.redact`), and the key by which workers sign their
requests. Headers lose their secrets in every topic. Keys of records stay as they are, and so do
source offsets: a connector finds them by every byte of their keys.

Encryption is deterministic (AES-SIV, RFC 5297): equal secrets stay equal, so that a changed
password is still seen to have changed, and capturing twice archives nothing twice.
"""

import re
from base64 import b64decode, b64encode, urlsafe_b64decode, urlsafe_b64encode
from binascii import Error as NoBase64
from hashlib import sha256
from pathlib import Path
from typing import Final

from cryptography.hazmat.primitives.ciphers.aead import AESSIV

from controlplane.core.entry import Batch, Decoded, Headers
from controlplane.core.java import decode_base64
from controlplane.core.redact import HIDDEN
from controlplane.core.state import Topics
from replay.capture.secrets_in_json import Hide, without_secrets, without_secrets_in_header
from replay.errors import NotCapturable

KEPT = "kept"
DROPPED = "dropped"

KEY_BYTES = (32, 48, 64)
"""Lengths of a key: AES-128, AES-192 or AES-256, twice, as AES-SIV wants it."""

_SESSION_KEY = b"session-key"

_DRAFT: Final = re.compile(rb'(?<="value":")[A-Za-z0-9+/]+={0,2}(?=")')
"""The value of a planned record in a record of the command topic."""


class Secrets:
    """What becomes of secrets. `mode` is what a manifest says about it."""

    def __init__(self, mode: str, topics: Topics, hide: Hide | None = None) -> None:
        self.mode = mode
        self._hide = hide
        self._topics = {topics.config, topics.status, topics.commands}
        self._commands = topics.commands

    def without(self, batch: Batch) -> Batch:
        """The same records, their secrets dropped or encrypted."""
        if self._hide is None:
            return batch
        hidden = batch.topic in self._topics
        if not hidden and not batch.headers:
            return batch
        values = batch.values
        if batch.topic == self._commands:  # first: what is hidden in a draft is no secret then
            values = [value and _DRAFT.sub(self._draft, value) for value in values]
        if hidden:
            pairs = zip(batch.keys, values, strict=True)
            values = [self._value(*pair) for pair in pairs]
        return Decoded(
            batch.topic,
            batch.partition,
            batch.offsets,
            batch.timestamps,
            batch.keys,
            values,
            {row: self._headers(headers, self._hide) for row, headers in batch.headers.items()},
            batch.aborted,
        )

    def _headers(self, headers: Headers, hide: Hide) -> Headers:
        return tuple(
            (name, value and without_secrets_in_header(name, value, hide))
            for name, value in headers
        )

    def _value(self, key: bytes | None, value: bytes | None) -> bytes | None:
        if value is None or self._hide is None:
            return value
        special = {"key": self._signing} if key == _SESSION_KEY else {}
        return without_secrets(value, self._hide, special)

    def _draft(self, found: re.Match[bytes]) -> bytes:
        """The value of a record that a command planned to write: base64 in the command's record."""
        assert self._hide is not None
        try:
            value = b64decode(found[0], validate=True)
        except NoBase64:
            return found[0]
        hidden = without_secrets(value, self._hide, {})
        return found[0] if hidden == value else b64encode(hidden)

    def _signing(self, text: str) -> str:
        """A session key is bytes in base64. It must stay such, or not such, as it was."""
        assert self._hide is not None
        signing = decode_base64(text)
        if signing is None:
            return self._hide(text.encode("utf-8", "surrogatepass"))
        return b64encode(self._hide(signing).encode()).decode()


def kept(topics: Topics) -> Secrets:
    """Every record as it is."""
    return Secrets(KEPT, topics)


def dropped(topics: Topics) -> Secrets:
    """In place of every secret a word that says so."""
    return Secrets(DROPPED, topics, _dropped)


def _dropped(_secret: bytes) -> str:
    return HIDDEN


def encrypted(topics: Topics, key_file: Path) -> Secrets:
    """In place of every secret `${encrypted:…}`, which the key in a file opens (`decrypted`).

    Raises:
        NotCapturable: the file holds no key.
    """
    key = read_key(key_file)
    return Secrets(f"encrypted with key {sha256(key).hexdigest()[:12]}", topics, _Sealing(key))


class _Sealing:
    """Encrypts. A cipher cannot travel to where records are, in a task of Spark's; a key can."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    def __call__(self, secret: bytes) -> str:
        """A secret sealed; what is sealed in it already stays."""
        parts = _SEALED.split(secret)
        return "".join(
            part.decode() if _SEALED.fullmatch(part) else self._sealed(part)
            for part in parts
            if part
        )

    def _sealed(self, secret: bytes) -> str:
        # The length tells little, and an empty secret is hidden by nobody. Padding would read as
        # an assignment where it stands in a text.
        sealed = urlsafe_b64encode(AESSIV(self._key).encrypt(secret, []))
        return f"${{encrypted:{sealed.decode().rstrip('=')}}}"


_SEALED: Final = re.compile(rb"(\$\{encrypted:[\w-]+\})")


def read_key(path: Path) -> bytes:
    """The key in a file: base64, of 32, 48 or 64 bytes.

    Raises:
        NotCapturable: it cannot be read, or holds no key.
    """
    try:
        key = b64decode(path.read_bytes().strip(), validate=True)
    except (OSError, NoBase64) as error:
        raise NotCapturable(f"{path} holds no key ({error}): {_HOW}") from None
    if len(key) not in KEY_BYTES:
        raise NotCapturable(f"{path} holds a key of {len(key)} bytes: {_HOW}")
    return key


_HOW = "make one with `openssl rand -base64 64 | tr -d '\\n' > FILE`"


def decrypted(text: str, key: bytes) -> bytes:
    """What `${encrypted:…}` stands for. Raises `cryptography`'s `InvalidTag` for another key."""
    sealed = text.removeprefix("${encrypted:").removesuffix("}")
    return AESSIV(key).decrypt(urlsafe_b64decode(sealed + "=" * (-len(sealed) % 4)), [])

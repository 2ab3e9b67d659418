"""Secrets on their way into an archive: kept, dropped, or encrypted.

A record that holds no secret is archived byte for byte. Of one that does, only the secret values
change, and it still reads as the record that it was. Which values are secrets is what hides them
from people, too (`core.redact`), and the key by which workers sign their requests.

Encryption is deterministic (AES-SIV, RFC 5297): equal secrets stay equal, so that a changed
password is still seen to have changed, and capturing twice archives nothing twice.
"""

import json
from base64 import b64decode, b64encode, urlsafe_b64encode
from binascii import Error as NoBase64
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.ciphers.aead import AESSIV

from controlplane.core import javajson
from controlplane.core.entry import Batch, Decoded
from controlplane.core.javajson import StackOverflow, Undecodable
from controlplane.core.profiles import KIP, Profile
from controlplane.core.redact import HIDDEN, redacted_text, redacted_value
from controlplane.core.state import Topics
from replay.errors import NotCapturable

KEPT = "kept"
DROPPED = "dropped"

KEY_BYTES = (32, 48, 64)
"""Lengths of a key: AES-128, AES-192 or AES-256, twice, as AES-SIV wants it."""

_SESSION_KEY = b"session-key"
_READER = Profile.of(KIP)

Hide = Callable[[bytes], str]
"""A secret's bytes → what stands in its place."""


class Secrets:
    """What becomes of secrets. `mode` is what a manifest says about it."""

    def __init__(self, mode: str, topics: Topics, hide: Hide | None = None) -> None:
        self.mode = mode
        self._hide = hide
        self._topics = {topics.config, topics.status, topics.commands}

    def without(self, batch: Batch) -> Batch:
        """The same records, their secrets dropped or encrypted."""
        if self._hide is None or batch.topic not in self._topics:
            return batch
        values = [
            self._value(key, value) for key, value in zip(batch.keys, batch.values, strict=True)
        ]
        return Decoded(
            batch.topic,
            batch.partition,
            batch.offsets,
            batch.timestamps,
            batch.keys,
            values,
            batch.headers,
            batch.aborted,
        )

    def _value(self, key: bytes | None, value: bytes | None) -> bytes | None:
        if value is None:
            return None
        try:
            decoded = javajson.decode(value, _READER)
        except (Undecodable, StackOverflow):
            return _redacted_bytes(value)
        hidden = redacted_value("", decoded, self._mark)
        if key == _SESSION_KEY:
            hidden = self._without_session_key(hidden)
        return value if hidden == decoded else javajson.encode(hidden)

    def _mark(self, secret: Any, shown: Any) -> Any:
        """What is archived of a value that `redact` does not show."""
        assert self._hide is not None
        text = secret if isinstance(secret, str) else json.dumps(secret)
        if isinstance(shown, str) and HIDDEN in shown and shown != HIDDEN:
            return shown  # the secret is a part of a longer text, of which the rest is none
        return self._hide(text.encode("utf-8", "surrogatepass"))

    def _without_session_key(self, record: Any) -> Any:
        """A session key is bytes, and must stay such, or it would read as another record."""
        if not isinstance(record, dict) or not isinstance(record.get("key"), str):
            return record
        assert self._hide is not None
        try:
            signing = b64decode(record["key"], validate=True)
        except NoBase64:
            return record
        return record | {"key": b64encode(self._hide(signing).encode()).decode()}


def _redacted_bytes(value: bytes) -> bytes:
    """Bytes that are no JSON without the secrets that stand in them as text."""
    text = value.decode("utf-8", "surrogateescape")
    return redacted_text(text).encode("utf-8", "surrogateescape")


def kept(topics: Topics) -> Secrets:
    """Every record as it is."""
    return Secrets(KEPT, topics)


def dropped(topics: Topics) -> Secrets:
    """In place of every secret a word that says so."""
    return Secrets(DROPPED, topics, lambda _: HIDDEN)


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
        # The length tells little, and an empty secret is hidden by nobody.
        sealed = AESSIV(self._key).encrypt(secret, [])
        return f"${{encrypted:{urlsafe_b64encode(sealed).decode()}}}"


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
    return AESSIV(key).decrypt(b64decode(sealed, altchars=b"-_"), [])

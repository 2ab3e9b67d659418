"""Policies for secrets on their way into an archive: keep, drop or encrypt.

A record without secrets is archived byte for byte. In a record with secrets only the secret values
change; each release reads the rest as before (`json_secrets`). Values are secret by the rule that
hides them from people (`core.text.redaction`). The key that signs workers' requests is secret, too.
Headers lose their secrets in every topic. Keys of records stay unchanged, because a connector finds
its offsets by every byte of their keys. Values of source offsets stay unchanged, too.

Encryption is deterministic (AES-SIV, RFC 5297): equal secrets stay equal. A changed password is
therefore still visible as a change, and a repeated capture adds nothing.
"""

import re
from base64 import b64decode, b64encode, urlsafe_b64decode, urlsafe_b64encode
from binascii import Error as NoBase64
from hashlib import sha256
from pathlib import Path
from typing import Final

from cryptography.hazmat.primitives.ciphers.aead import AESSIV

from controlplane.core.entry import Batch, ColumnBatch, Headers
from controlplane.core.java.java_library import decode_base64
from controlplane.core.state import Topics
from controlplane.core.text.redaction import HIDDEN
from replay.capture.json_secrets import SecretMask, without_secrets, without_secrets_in_header
from replay.errors import NotCapturable

KEPT = "kept"
DROPPED = "dropped"

KEY_BYTES = (32, 48, 64)
"""Lengths of a key: AES-SIV needs two keys of AES-128, AES-192 or AES-256."""

_SESSION_KEY = b"session-key"

_DRAFT: Final = re.compile(rb'(?<="value":")[A-Za-z0-9+/]+={0,2}(?=")')
"""Value of a planned record within a record of the command topic."""


class SecretPolicy:
    """Policy for secrets; a manifest records its `mode`."""

    def __init__(self, mode: str, topics: Topics, hide: SecretMask | None = None) -> None:
        self.mode = mode
        self._hide = hide
        self._topics = {topics.config, topics.status, topics.commands}
        self._commands = topics.commands

    def without(self, batch: Batch) -> Batch:
        """Drop or encrypt the secrets of all records."""
        if self._hide is None:
            return batch
        hides_values = batch.topic in self._topics
        if not hides_values and not batch.headers:
            return batch
        values = batch.values
        # A command's record contains planned records in base64. Their secrets are hidden first:
        # `_value` would hide a whole planned record if a secret were left in it.
        if batch.topic == self._commands:
            values = [value and _DRAFT.sub(self._draft, value) for value in values]
        if hides_values:
            pairs = zip(batch.keys, values, strict=True)
            values = [self._value(*pair) for pair in pairs]
        return ColumnBatch(
            batch.topic,
            batch.partition,
            batch.offsets,
            batch.timestamps,
            batch.keys,
            values,
            {row: self._headers(headers, self._hide) for row, headers in batch.headers.items()},
            batch.aborted,
        )

    def _headers(self, headers: Headers, hide: SecretMask) -> Headers:
        return tuple(
            (name, value and without_secrets_in_header(name, value, hide))
            for name, value in headers
        )

    def _value(self, key: bytes | None, value: bytes | None) -> bytes | None:
        if value is None or self._hide is None:
            return value
        special = {"key": self._signing} if key == _SESSION_KEY else {}
        return without_secrets(value, self._hide, special)

    def _draft(self, match: re.Match[bytes]) -> bytes:
        """Hide secrets in a planned record, stored in base64 within the command's record."""
        assert self._hide is not None
        try:
            value = b64decode(match[0], validate=True)
        except NoBase64:
            return match[0]
        hidden = without_secrets(value, self._hide, {})
        return match[0] if hidden == value else b64encode(hidden)

    def _signing(self, text: str) -> str:
        """Hide a session key: valid base64 stays valid, invalid stays invalid."""
        assert self._hide is not None
        signing = decode_base64(text)
        if signing is None:
            return self._hide(text.encode("utf-8", "surrogatepass"))
        return b64encode(self._hide(signing).encode()).decode()


def kept_secrets(topics: Topics) -> SecretPolicy:
    """Policy that keeps every record unchanged."""
    return SecretPolicy(KEPT, topics)


def dropped_secrets(topics: Topics) -> SecretPolicy:
    """Policy that replaces every secret by a fixed word."""
    return SecretPolicy(DROPPED, topics, _dropped)


def _dropped(_secret: bytes) -> str:
    return HIDDEN


def encrypted_secrets(topics: Topics, key_file: Path) -> SecretPolicy:
    """Policy that replaces every secret by `${encrypted:…}`; the key opens it (`decrypted`).

    Raises:
        NotCapturable: the file cannot be read, or holds no key.
    """
    key = read_key(key_file)
    return SecretPolicy(
        f"encrypted with key {sha256(key).hexdigest()[:12]}", topics, _Encryption(key)
    )


class _Encryption:
    """Encrypts secrets. Only the key is pickled for Spark tasks, because a cipher cannot be."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    def __call__(self, secret: bytes) -> str:
        """Encrypt a secret; encrypted parts of it stay."""
        parts = _SEALED.split(secret)
        return "".join(
            part.decode() if _SEALED.fullmatch(part) else self._sealed(part)
            for part in parts
            if part
        )

    def _sealed(self, secret: bytes) -> str:
        # The length of the ciphertext reveals only the length of the secret. No empty secret comes
        # here. Padding of base64 is removed: `=` would read as an assignment within a text.
        sealed = urlsafe_b64encode(AESSIV(self._key).encrypt(secret, []))
        return f"${{encrypted:{sealed.decode().rstrip('=')}}}"


_SEALED: Final = re.compile(rb"(\$\{encrypted:[\w-]+\})")


def read_key(path: Path) -> bytes:
    """Read the key in a file: base64 of 32, 48 or 64 bytes.

    Raises:
        NotCapturable: the file cannot be read, or holds no key.
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
    """Decrypt `${encrypted:…}`. Raises `cryptography`'s `InvalidTag` for a wrong key."""
    sealed = text.removeprefix("${encrypted:").removesuffix("}")
    return AESSIV(key).decrypt(urlsafe_b64decode(sealed + "=" * (-len(sealed) % 4)), [])

"""Codec of our command topic: tagged, versioned JSON. The key is the command's id."""

import json

import msgspec

from controlplane.core.records import CommandRecord, Invalid

_DECODER: msgspec.json.Decoder[CommandRecord] = msgspec.json.Decoder(CommandRecord)
_ENCODER = msgspec.json.Encoder()
_VERSION = 1
"""Version of the format. New fields keep it; a change of meaning needs a new one."""


def decode_command(key: bytes | None, value: bytes | None) -> CommandRecord | Invalid | None:
    """Decode a record of the command topic; None: a tombstone, from manual retention."""
    if value is None:
        return None
    try:
        record = _decoded(value)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        return Invalid(f"not a command record: {error}")
    if record.version > _VERSION:
        return Invalid(f"command record of version {record.version}, newer than {_VERSION}")
    if key != record.command_id.encode("utf-8", "surrogatepass"):
        return Invalid("key is not the command's id")
    return record


def _decoded(value: bytes) -> CommandRecord:
    try:
        return _DECODER.decode(value)
    except msgspec.ValidationError:
        raise
    except msgspec.DecodeError:
        # msgspec refuses half a surrogate pair, but a connector config may contain one.
        record: CommandRecord = msgspec.convert(json.loads(value), CommandRecord)
        return record


def encode_command(record: CommandRecord) -> tuple[bytes, bytes]:
    """Encode a record of the command topic to key and value."""
    key = record.command_id.encode("utf-8", "surrogatepass")
    try:
        return key, _ENCODER.encode(record)
    except UnicodeEncodeError:
        # Half a surrogate pair, written as an escape.
        text = json.dumps(msgspec.to_builtins(record), separators=(",", ":"))
        return key, text.encode("ascii")

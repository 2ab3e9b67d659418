"""Files of connectors that a standalone worker creates (`ConnectStandalone`, KIP-980, KIP-995).

| content | meaning |
|---|---|
| `{"name": …, "connector.class": …}` | a config |
| `{"name": …, "config": {…}}` | the body of `POST /connectors`; unknown fields are ignored |
| `name=…`, `connector.class=…` | a config in Java's `.properties` |
"""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import msgspec

from controlplane.client.http.request_errors import Declined
from controlplane.core.commands import CreateConnector
from controlplane.core.releases.profiles import Profile
from controlplane.core.text.file_errors import unreadable
from controlplane.rest import bodies
from controlplane.rest.endpoints import command_requests
from controlplane.rest.errors import RestError
from controlplane.settings.errors import SettingsError
from controlplane.settings.properties import located, properties_in
from controlplane.terminal.output import note

LARGEST_BYTES = 1 << 20
"""Maximum size of a file. The body of a request may be larger (`http.body.max.bytes`)."""

_CONTROL_BYTE = re.compile(rb"[\x00-\x08\x0e-\x1f\x7f]")
"""Byte that no text has. Java's reader takes it as part of a key or a value."""

_OFFERED_BY = {"initial_state": "creates_in_state", "initial_offsets": "creates_with_offsets"}
"""Fields of a request → attribute of `Profile` that is true for the releases with this field."""
_FIELDS = ("name", "config", *_OFFERED_BY)


class ConnectorRequest(NamedTuple):
    """A connector to create, and the file that asks for it."""

    file: str
    command: CreateConnector


def read_requests(files: Iterable[str], profile: Profile) -> list[ConnectorRequest]:
    """Read all files.

    Raises:
        Declined: a file declares no connector, or two files declare the same one.
    """
    by_name: dict[str, ConnectorRequest] = {}
    for file in files:
        request = ConnectorRequest(file, _command(file, profile))
        other = by_name.setdefault(request.command.connector, request)
        if other is not request:
            raise Declined(
                f"{file}: Connector {request.command.connector} already exists: it is in "
                f"{other.file}, too"
            )
    return [*by_name.values()]


def _command(file: str, profile: Profile) -> CreateConnector:
    content = _content(file)
    if not content.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{"):
        return _from_config(file, _properties(file, content))
    content = content.removeprefix(b"\xef\xbb\xbf")
    try:
        fields = msgspec.json.decode(content, type=dict[str, msgspec.Raw])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as failure:
        raise Declined(f"{file} is no JSON object: {failure}") from None
    try:
        if bytes(fields.get("config", b"")).lstrip().startswith(b"{"):
            return _from_request(file, fields, profile)
        return _from_config(file, bodies.config(content, profile))
    except RestError as refused:
        raise Declined(f"{file}: {refused}") from None


def _content(file: str) -> bytes:
    """Read a file.

    Raises:
        Declined: it cannot be read, or is too large.
    """
    try:
        with Path(file).open("rb") as opened:
            content = opened.read(LARGEST_BYTES + 1)
    except OSError as failure:
        raise Declined(unreadable(file, failure)) from None
    if len(content) > LARGEST_BYTES:
        raise Declined(f"{file} has more than {LARGEST_BYTES >> 20} MiB: it declares no connector")
    return content


def _properties(file: str, content: bytes) -> dict[str, str | None]:
    """Read `.properties`, in ISO-8859-1 as Java does; the last value of a key counts.

    Raises:
        Declined: the file is no text, or a line cannot be read.
    """
    control = _CONTROL_BYTE.search(content)
    if control is not None:
        raise Declined(
            f"{file} is no text (byte {control.start()} is 0x{control[0][0]:02x}): name the file "
            "of a connector, which has JSON or lines key=value"
        )
    try:
        return {each.key: each.value for each in properties_in(content.decode("iso-8859-1"))}
    except SettingsError as failure:
        raise Declined(str(located(file, failure))) from None


def _from_config(file: str, config: dict[str, str | None]) -> CreateConnector:
    name = config.get("name")
    if name is None:
        raise Declined(
            f"Connector configuration at '{file}' is missing the mandatory 'name' configuration"
        )
    return CreateConnector(name, config)


def _from_request(file: str, fields: dict[str, msgspec.Raw], profile: Profile) -> CreateConnector:
    """Return the command of a body of `POST /connectors`; fields of other releases are ignored."""
    for field, offered in _OFFERED_BY.items():
        if field in fields and not getattr(profile, offered):
            note(f"Warning: {file}: {profile.release} ignores the field {field}")
            del fields[field]
    body = msgspec.json.encode({name: fields[name] for name in _FIELDS if name in fields})
    command = command_requests.create(command_requests.CommandInput(profile, {}, body))
    assert isinstance(command, CreateConnector)
    return command

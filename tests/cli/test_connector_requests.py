"""Connector files in the forms of `connect-standalone.sh`."""

from pathlib import Path

import pytest

from controlplane.cli.standalone.connector_requests import read_requests
from controlplane.core.commands import CreateConnector, OffsetChange
from controlplane.core.records import Target
from controlplane.core.releases.profiles import KIP, Profile

CONFIG = {"name": "a", "tasks.max": "2", "errors.log.enable": "true"}
FLAT = '{"name": "a", "tasks.max": 2, "errors.log.enable": true}'
OFFSETS = '[{"partition": {"p": 1}, "offset": {"at": 1.5}}]'


def command(folder: Path, content: bytes, name: str = "a.json") -> CreateConnector:
    """Creation command that a file with this content declares."""
    file = folder / name
    file.write_bytes(content)
    (request,) = read_requests([str(file)], Profile.of(KIP))
    assert request.file == str(file)
    return request.command


@pytest.mark.parametrize(
    "content",
    [
        FLAT,
        f"\ufeff \n{FLAT}",
        f'{{"name": "a", "config": {FLAT}}}',
        '{"name": "a", "config": {"tasks.max": 2, "errors.log.enable": true}, "tasks": []}',
        "name=a\ntasks.max=2\nerrors.log.enable=true\n",
        "\ufeffname=a\ntasks.max=2\nerrors.log.enable=true\n",
        "# a comment\nname : x\nname a\ntasks.max=\\\n  2\nerrors.log.enable=tru\\u0065",
    ],
    ids=[
        "flat",
        "byte order mark",
        "request",
        "unknown field",
        "properties",
        "marked properties",
        "odd properties",
    ],
)
def test_each_form_declares_the_same(tmp_path: Path, content: str) -> None:
    """Each form gives the same command, with texts for numbers and booleans."""
    creation = command(tmp_path, content.encode())
    assert (creation.connector, dict(creation.config)) == ("a", CONFIG)
    assert (creation.initial_state, creation.initial_offsets) == (None, None)


def test_the_content_selects_the_form(tmp_path: Path) -> None:
    """JSON is tried first, whatever the file's name, as in Kafka."""
    assert command(tmp_path, FLAT.encode(), "a.properties").config["tasks.max"] == "2"
    assert command(tmp_path, b"name=a", "b.json").connector == "a"


def test_properties_are_in_latin_1(tmp_path: Path) -> None:
    """A properties file is read as ISO 8859-1, as Java does."""
    assert command(tmp_path, b"name=a\ntopic=\xfc").config["topic"] == "ü"


def test_numbers_keep_their_text(tmp_path: Path) -> None:
    """Numbers of a config become texts with their spelling; those of offsets stay numbers."""
    creation = command(tmp_path, b'{"name": "a", "config": {"rate": 1.50, "none": null}}')
    assert creation.config == {"rate": "1.50", "none": None, "name": "a"}


@pytest.mark.parametrize(
    ("word", "target"),
    [("RUNNING", Target.STARTED), ("PAUSED", Target.PAUSED), ("STOPPED", Target.STOPPED)],
)
def test_a_creation_keeps_state_and_offsets(tmp_path: Path, word: str, target: Target) -> None:
    """A creation keeps `initial_state` (KIP-980) and `initial_offsets` (KIP-995) of the file."""
    body = (
        f'{{"name": "a", "config": {{}}, "initial_state": "{word}", "initial_offsets": {OFFSETS}}}'
    )
    creation = command(tmp_path, body.encode())
    assert creation.initial_state is target
    assert creation.initial_offsets == (OffsetChange({"p": 1}, {"at": 1.5}),)


def test_files_keep_their_order(tmp_path: Path) -> None:
    """The connectors are created in the order of the files."""
    files = [tmp_path / f"{name}.properties" for name in "cab"]
    for file in files:
        file.write_text(f"name={file.stem}\n")
    requests = read_requests(map(str, files), Profile.of(KIP))
    assert [request.command.connector for request in requests] == ["c", "a", "b"]

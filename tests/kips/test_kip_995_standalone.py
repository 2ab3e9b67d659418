"""KIP-995 with the command line of a standalone worker."""

from pathlib import Path
from typing import Any

import httpx
import pytest

from controlplane.worker.standalone.offset_file_format import decode_offsets, encode_offsets
from tests.cli.standalone_process import (
    LINES,
    OUT,
    ended_worker,
    running_worker,
    until_lines,
    write_json,
)

KEY = b'["lines",{"filename":"in.txt"}]'
BEHIND_ONE: list[dict[str, Any]] = [
    {"partition": {"filename": "in.txt"}, "offset": {"position": 4}}
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a file of two lines, which no earlier connector has read."""
    (tmp_path / "in.txt").write_text("one\ntwo\n")
    (tmp_path / "connect.offsets").write_bytes(encode_offsets({KEY: b'{"position":0}'}))
    return tmp_path


def requested(folder: Path, **fields: Any) -> Path:
    """A file that asks for the source."""
    return write_json(folder / "lines.json", {"name": "lines", "config": LINES, **fields})


class TestPublicInterfaces:
    """Public Interfaces."""

    async def test_the_file_of_a_connector_may_have_offsets(self, folder: Path) -> None:
        """The JSON file of a connector for a standalone worker may have the field."""
        source = requested(folder, initial_offsets=BEHIND_ONE)
        sink = write_json(folder / "out.json", OUT)
        async with running_worker(folder, source, sink) as worker:
            await until_lines(folder / "out.txt", "two")
            assert worker.lines[0] == (
                "Created connector lines. The offsets for this connector have been set successfully"
            )


class TestPlan:
    """Test Plan."""

    async def test_a_json_file_may_have_offsets_and_a_state(self, folder: Path) -> None:
        """A standalone worker accepts the field in a JSON file, together with a state."""
        source = requested(folder, initial_offsets=BEHIND_ONE, initial_state="PAUSED")
        async with (
            running_worker(folder, source) as worker,
            httpx.AsyncClient(base_url=worker.url) as client,
        ):
            status = (await client.get("/connectors/lines/status")).json()
            assert status["connector"]["state"] == "PAUSED"
            shown = (await client.get("/connectors/lines/offsets")).json()
            assert shown == {"offsets": {"source": BEHIND_ONE}}
            written = decode_offsets((folder / "connect.offsets").read_bytes())
            assert written == {KEY: b'{"position":4}'}

    def test_a_refused_field_ends_the_worker(self, folder: Path) -> None:
        """The worker ends, names the step, and keeps the earlier offsets."""
        before = (folder / "connect.offsets").read_bytes()
        offsets = [{"partition": {"filename": "in.txt"}, "offset": {"position": -1}}]
        said = ended_worker(folder, requested(folder, initial_offsets=offsets))
        assert said.code == 3
        assert "initial offsets of connector lines: The value for the 'position' key" in said.err
        assert (folder / "connect.offsets").read_bytes() == before

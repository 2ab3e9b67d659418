"""Results of the documents' programs; `test_consoles` runs every snippet."""

import ast
import inspect
import re
import tomllib
from pathlib import Path
from types import CodeType
from typing import Any

import httpx
import pytest

import controlplane
from controlplane import ControlPlane, commands
from controlplane.controller import NotWritten, TimedOut, TooMany
from controlplane.core.moments import UnknownMoment
from controlplane.core.plan import HookSuccess
from controlplane.logs import log as logs
from controlplane.plane import Refusal
from controlplane.plugins import GROUP, described

DOCS = Path(__file__).parents[2] / "docs"
TEXT = "".join((DOCS / name).read_text("utf-8") for name in ("embed.md", "testing.md"))


def blocks(language: str) -> list[str]:
    """Code blocks of the document in this language."""
    return re.findall(rf"^```{language}\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL)


async def run(block: str) -> dict[str, Any]:
    """Run a block with top-level `await`; return its names."""
    code = compile(block, str(DOCS), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    assert isinstance(code, CodeType)
    names: dict[str, Any] = {"__name__": "docs"}
    waiting = eval(code, names)  # not exec, which returns no coroutine
    if inspect.iscoroutine(waiting):
        await waiting
    return names


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Change to a folder with the files that the blocks name."""
    monkeypatch.chdir(tmp_path)
    Path("catalogue.json").write_text('[{"class":"lab.Source","type":"source"}]')
    Path("connect-distributed.properties").write_text("config.storage.topic=theirs\n")


@pytest.fixture
async def state_db(folder: None) -> None:
    """Log that the blocks use."""
    config = {"connector.class": "FileStreamSource", "file": "f", "topic": "t"}
    async with ControlPlane.open("sqlite:///state.db") as plane:
        await plane.execute(commands.CreateConnector("orders", config))


@pytest.mark.usefixtures("state_db")
async def test_a_log_line_has_the_documented_fields(capsys: pytest.CaptureFixture[str]) -> None:
    """The fields are in the order of the document."""
    (block,) = (block for block in blocks("python") if "Surroundings(" in block)
    await run(block)
    (shown,) = (block for block in blocks("text") if block.startswith("timestamp="))
    (line,) = capsys.readouterr().err.splitlines()
    fields = re.compile(r"(?:^| )(\w+)=")
    assert fields.findall(line) == fields.findall(shown.strip())
    assert " command=resume connector=orders principal=ada outcome=done " in line


@pytest.mark.usefixtures("state_db")
async def test_the_mounted_application_serves_below_its_path() -> None:
    """The mounted app serves below its path during the outer app's life, with correct locations."""
    (block,) = (block for block in blocks("python") if "def lifespan" in block)
    app = (await run(block))["app"]
    config = {"connector.class": "FileStreamSource", "file": "f", "topic": "t"}
    transport = httpx.ASGITransport(app)
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=transport, base_url="http://us") as client,
    ):
        made = await client.post("/connect/connectors", json={"name": "more", "config": config})
        response = await client.get("/connect/connectors")
    assert (made.status_code, made.headers["location"]) == (
        201,
        "http://us/connect/connectors/more",
    )
    assert response.json() == ["more", "orders"]


async def test_the_connector_in_python_is_valid() -> None:
    """The connector is valid, its hook answers, and its package declares it."""
    (block,) = (block for block in blocks("python") if "class OrdersSource" in block)
    plugin = described((await run(block))["OrdersSource"])
    assert (plugin.type, plugin.version) == ("source", "1.0")
    assert plugin.hook is not None
    offsets = (({"table": "orders"}, {"row": 1}),)
    assert plugin.hook({"table": "orders"}, offsets) == HookSuccess(definite=True)
    (declared,) = blocks("toml")
    assert tomllib.loads(declared)["project"]["entry-points"][GROUP]


def raised(table: str) -> list[str]:
    """Names in the first column of a table."""
    return re.findall(r"`(\w+)`", "".join(row.split("|")[1] for row in table.splitlines()))


def test_documented_exceptions_can_be_imported() -> None:
    """Each exception of the table can be imported, and has the documented base classes."""
    reading, commanding = re.findall(r"^\| Raised \|.*\n\|.*\n((?:\|.*\n)+)", TEXT, re.MULTILINE)
    names = raised(commanding)
    expected = (Refusal, TimedOut, TooMany, NotWritten, logs.Fenced, logs.LogUnavailable)
    assert tuple(getattr(controlplane, name) for name in names) == (*expected, logs.LogError)
    assert issubclass(NotWritten, logs.LogUnavailable)
    assert [getattr(controlplane, name) for name in raised(reading)] == [
        *(logs.LogNotUsable, logs.LogUnavailable, logs.LogCorrupt, UnknownMoment)
    ]
    kinds = (logs.Fenced, logs.LogUnavailable, logs.LogNotUsable, logs.LogCorrupt)
    assert all(issubclass(kind, logs.LogError) for kind in kinds)

"""Classes from `plugin.path`; the worker imports no other module."""

import sys
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from textwrap import dedent

import httpx
import pytest

from controlplane.connect.errors import ConnectError
from controlplane.core.commands import CreateConnector
from controlplane.plugins import Unloadable
from controlplane.worker.plugin_path import classes_in
from tests.worker.worker_fixture import running_classes, until_state

MODULE = """
    from pathlib import Path

    Path({traces!r}, {name!r}).touch()

    from controlplane.connect import Source

    class Quiet(Source):
        async def read(self, task):
            while True:
                yield task.idle(0.01)

    class _Private(Quiet):
        pass
"""

METADATA = "Metadata-Version: 2.1\nName: {name}\nVersion: 1\n"


@pytest.fixture
def traces(tmp_path: Path) -> Path:
    """Folder in which a module leaves a file when it is imported."""
    folder = tmp_path / "traces"
    folder.mkdir()
    return folder


@pytest.fixture
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Folder on Python's path; modules that a test imports are removed again."""
    folder = tmp_path / "modules"
    folder.mkdir()
    monkeypatch.syspath_prepend(folder)
    before = {*sys.modules}
    yield folder
    for name in {*sys.modules} - before:
        if name.startswith("pp_"):
            del sys.modules[name]


def write_module(folder: Path, traces: Path, name: str, text: str = MODULE) -> None:
    """Write a module that leaves a trace."""
    (folder / f"{name}.py").write_text(dedent(text).format(traces=str(traces), name=name))


def imported(traces: Path) -> set[str]:
    """Names of modules that left a trace."""
    return {path.name for path in traces.iterdir()}


async def test_public_classes_of_a_module_are_loaded(modules: Path, traces: Path) -> None:
    """Public classes of the module run as `module.Class`; no other module is imported."""
    write_module(modules, traces, "pp_named")
    write_module(modules, traces, "pp_other")
    classes = classes_in(["pp_named"])
    assert imported(traces) == {"pp_named"}
    with pytest.raises(ConnectError, match="Failed to find any class"):
        classes.named("pp_named._Private")
    async with running_classes(classes) as worker:
        config = {"connector.class": "pp_named.Quiet"}
        await worker.plane.execute(CreateConnector("s", config))
        await until_state(worker, "s", "RUNNING", "RUNNING")
    assert imported(traces) == {"pp_named"}


async def test_each_module_of_a_directory_is_loaded(
    tmp_path: Path, modules: Path, traces: Path
) -> None:
    """The worker loads each module of a directory, and no module of its subfolders."""
    folder = tmp_path / "plugins"
    (folder / "below").mkdir(parents=True)
    write_module(folder, traces, "pp_first")
    write_module(folder, traces, "pp_second")
    write_module(folder / "below", traces, "pp_below")
    write_module(modules, traces, "pp_other")
    classes = classes_in([str(folder)])
    assert imported(traces) == {"pp_first", "pp_second"}
    assert classes.named("pp_second.Quiet").__name__ == "Quiet"


def test_a_name_means_the_module_and_not_the_folder(
    tmp_path: Path, modules: Path, traces: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The name means the module, even if the working directory has a folder of that name."""
    write_module(modules, traces, "pp_named")
    folder = tmp_path / "pp_named"
    folder.mkdir()
    write_module(folder, traces, "pp_in_folder")
    monkeypatch.chdir(tmp_path)
    assert classes_in(["pp_named"]).named("pp_named.Quiet")
    assert imported(traces) == {"pp_named"}
    assert classes_in(["./pp_named"]).named("pp_in_folder.Quiet")
    (tmp_path / "pp_missing").mkdir()
    with pytest.raises(Unloadable, match=r"for the directory, write \./pp_missing"):
        classes_in(["pp_missing"])


def _package(folder: Path, traces: Path, name: str) -> None:
    """Install a package whose metadata declare a connector in a module of their own."""
    (folder / name).mkdir()
    (folder / name / "__init__.py").write_text("")
    write_module(folder / name, traces, "inner")
    metadata = folder / f"{name}-1.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(METADATA.format(name=name))
    point = f"[controlplane.connectors]\nquiet-{name} = {name}.inner:Quiet\n"
    (metadata / "entry_points.txt").write_text(point)


def test_declared_connectors_of_a_package_are_loaded(modules: Path, traces: Path) -> None:
    """Declared connectors of a named package are loaded; those of other packages are not."""
    _package(modules, traces, "pp_named_package")
    assert classes_in([]).plugins() is not None
    assert imported(traces) == set()
    classes = classes_in(["pp_named_package"])
    assert classes.named("pp_named_package.inner.Quiet").__name__ == "Quiet"
    assert imported(traces) == {"inner"}
    (traces / "inner").unlink()
    _package(modules, traces, "pp_other_package")
    classes_in(["pp_named_package"])
    assert imported(traces) == set()


FORBIDDEN = "pp_forbidden.Quiet"
SHIPPED = {"connector.class": "controlplane.connectors.GeneratorSource", "topic": "t"}
CHAIN = {"transforms": "x", "transforms.x.type": FORBIDDEN}
PREDICATES = {
    "transforms": "x",
    "transforms.x.type": "org.apache.kafka.connect.transforms.Filter",
    "transforms.x.predicate": "p",
    "predicates": "p",
    "predicates.p.type": FORBIDDEN,
}

REFUSED_CONFIGS: list[tuple[dict[str, str], str]] = [
    ({"connector.class": FORBIDDEN}, "connector.class"),
    ({"connector.class": "pp_forbidden"}, "connector.class"),
    ({"connector.class": "Quiet"}, "connector.class"),
    ({**SHIPPED, **CHAIN}, "transforms.x.type"),
    ({**SHIPPED, **PREDICATES}, "predicates.p.type"),
    ({**SHIPPED, "value.converter": FORBIDDEN}, "value.converter"),
    ({**SHIPPED, "header.converter": FORBIDDEN}, "header.converter"),
]
"""Configs that name a class beyond the plugin path, and the key of that class."""

TASK_CONFIG = {
    **SHIPPED,
    "connector.class": "org.apache.kafka.connect.file.FileStreamSourceConnector",
    "task.class": FORBIDDEN,
}
"""A config with a class in a key that has no meaning."""


def check_refused(answer: httpx.Response, connector: str, key: str, plugin_path: list[str]) -> None:
    """Check Kafka's message; shipped connectors are unknown without a plugin path."""
    assert answer.status_code == 400, answer.text
    message = answer.json()["message"]
    if key == "connector.class" or not plugin_path:
        assert message.startswith(
            "Failed to find any class that implements Connector and which name matches "
            f"{connector}, available connectors are: PluginDesc{{"
        )
    else:
        assert message == (
            "Connector configuration is invalid and contains the following 1 error(s):\n"
            f"Invalid value {FORBIDDEN} for configuration {key}: "
            f"Class {FORBIDDEN} could not be found.\n"
            "You can also find the above list of errors at the endpoint "
            "`/connector-plugins/{connectorType}/config/validate`"
        )


@pytest.mark.parametrize("plugin_path", [[], ["controlplane.connectors"]])
async def test_a_request_imports_nothing(
    modules: Path, traces: Path, plugin_path: list[str]
) -> None:
    """A request imports no class, converter, transformation or predicate of its config."""
    write_module(modules, traces, "pp_forbidden")
    async with running_classes(classes_in(plugin_path)) as worker:
        transport = httpx.ASGITransport(worker.plane.app)
        async with httpx.AsyncClient(transport=transport, base_url="http://connect") as client:
            for number, (config, key) in enumerate(REFUSED_CONFIGS):
                connector = config["connector.class"]
                answer = await client.put(f"/connectors/s{number}/config", json=config)
                check_refused(answer, connector, key, plugin_path)
                path = f"/connector-plugins/{connector}/config/validate"
                await client.put(path, json=config)
            for config in (*(config for config, _ in REFUSED_CONFIGS), TASK_CONFIG):
                posted = {"name": "p", "config": config}
                await client.post("/connectors", json=posted)
            listed = await client.get("/connector-plugins?connectorsOnly=false")
            assert "pp_forbidden" not in listed.text
            await client.get(f"/connector-plugins/{FORBIDDEN}/config")
    assert imported(traces) == set()
    assert "pp_forbidden" not in sys.modules


def test_a_missing_directory_is_named() -> None:
    """A relative path is no module, so a missing directory is not reported as a failed import."""
    with pytest.raises(Unloadable, match=r"names \./nodir, which does not exist"):
        classes_in(["./nodir"])


@pytest.mark.parametrize("entries", [("",), ("./plugins", ""), ("", "", "./plugins")])
def test_an_empty_entry_is_not_the_working_directory(
    tmp_path: Path,
    modules: Path,
    traces: Path,
    monkeypatch: pytest.MonkeyPatch,
    entries: tuple[str, ...],
) -> None:
    """A comma too many runs no script of the working directory."""
    (tmp_path / "plugins").mkdir()
    write_module(tmp_path, traces, "pp_script")
    monkeypatch.chdir(tmp_path)
    assert classes_in(entries).is_empty
    assert imported(traces) == set()


@pytest.mark.parametrize("is_absolute", [True, False])
def test_a_file_is_told_from_a_missing_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_absolute: bool
) -> None:
    """The error about a module's file asks for its directory."""
    (tmp_path / "pp_file.py").touch()
    monkeypatch.chdir(tmp_path)
    place = str(tmp_path / "pp_file.py") if is_absolute else "./pp_file.py"
    with pytest.raises(Unloadable) as failure:
        classes_in([place])
    assert str(failure.value) == (f"plugin.path names {place}, which is a file: name its directory")


BROKEN = {
    "pp_raises": ("1 / 0", "1: ZeroDivisionError: division by zero"),
    "pp_exits": ("import sys\nsys.exit(3)", "2: SystemExit: 3"),
    "pp_ends_the_process": ("import os\nos._exit(3)", "2: SystemExit: 3"),
    "pp_needs": (
        "\nimport no_such_module_at_all",
        "2: ModuleNotFoundError: No module named 'no_such_module_at_all'",
    ),
    "pp_typo": ("\n\nclass :", "3: SyntaxError: invalid syntax"),
}


@pytest.mark.parametrize("name", BROKEN)
@pytest.mark.parametrize("form", ["module", "directory"])
def test_a_failing_module_is_named(modules: Path, name: str, form: str) -> None:
    """The error names the module, the author's line and the reason; the process continues."""
    text, reason = BROKEN[name]
    (modules / f"{name}.py").write_text(text)
    with pytest.raises(Unloadable) as failure:
        classes_in([name if form == "module" else str(modules)])
    assert str(failure.value).endswith(f"{modules / name}.py:{reason}")
    assert name not in sys.modules


@pytest.mark.parametrize("place", ["pp_missing", ".relative", "a b", "x/y.py"])
def test_a_missing_path_is_named(place: str) -> None:
    """The error names the missing path."""
    with pytest.raises(Unloadable) as failure:
        classes_in([place])
    assert f"plugin.path names {place}" in str(failure.value)


def test_a_module_of_another_name_is_not_replaced(tmp_path: Path) -> None:
    """A file `json.py` in a directory does not replace Python's module."""
    (tmp_path / "json.py").write_text("")
    with pytest.raises(Unloadable, match="already loaded: rename it"):
        classes_in([str(tmp_path)])


@pytest.mark.parametrize(("text", "is_refused"), [("", False), ("COMMON = 1\n", True)])
def test_several_directories_have_an_init(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, is_refused: bool
) -> None:
    """An empty `__init__.py` is no module; another one needs a name of its own."""
    monkeypatch.delitem(sys.modules, "__init__", raising=False)
    folders = [tmp_path / name for name in ("first", "second")]
    for folder in folders:
        folder.mkdir()
        (folder / "__init__.py").write_text(text)
    with pytest.raises(Unloadable, match="rename it") if is_refused else nullcontext():
        classes_in(map(str, folders))
    sys.modules.pop("__init__", None)


def test_a_failing_entry_point_is_named(modules: Path, traces: Path) -> None:
    """The error names what the package declares."""
    _package(modules, traces, "pp_bad_package")
    (modules / "pp_bad_package" / "inner.py").write_text("raise ValueError('not today')")
    with pytest.raises(Unloadable, match=r"pp_bad_package\.inner:Quiet cannot be loaded: .*today"):
        classes_in(["pp_bad_package"])

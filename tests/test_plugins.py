"""Sources of plugins: files of the package, a catalogue, installed packages."""

from asyncio import CancelledError
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, ClassVar, Literal

import pytest

from controlplane.connect import key
from controlplane.core.configdef.key_definition import ConfigKey
from controlplane.core.context import Context
from controlplane.core.plan import HookFailure, HookOutcome, HookSuccess, Offsets
from controlplane.core.plugins import Plugin
from controlplane.core.releases.profiles import Profile
from controlplane.core.validation import refusal
from controlplane.plugins import (
    Connector,
    Unloadable,
    catalogued,
    described,
    in_python,
    kafkas_own,
)
from tests.installed_package import declare

FILE_SOURCE = "org.apache.kafka.connect.file.FileStreamSourceConnector"


class Orders:
    """A source connector in Python with one setting."""

    kind: ClassVar[Literal["source", "sink"]] = "source"
    version: ClassVar[str] = "1.2"
    config: ClassVar[Sequence[ConfigKey]] = (
        ConfigKey(name="table", type="STRING", required=True, valid=("non-empty string",)),
        ConfigKey(name="alter", type="STRING", default="accept"),
    )

    @staticmethod
    def alter_offsets(config: Mapping[str, Any], offsets: Offsets) -> bool:
        """Behave as the config's key `alter` demands."""
        match config["alter"]:
            case "refuse":
                raise ValueError(f"no row for {len(offsets)} offsets")
            case "cannot":
                raise NotImplementedError
            case "break":
                raise RuntimeError("out of luck")
            case "exit":
                raise SystemExit(1)
            case "cancel":
                raise CancelledError
            case "interrupt":
                raise KeyboardInterrupt
            case consent:
                return bool(consent == "accept")


class Silent:
    """A connector that declares nothing about offsets."""

    kind = "sink"
    version = "0"
    config = ()


ORDERS = f"{__name__}.Orders"
KIP = Profile.of("kip")


def context(*connectors: type[Connector]) -> Context:
    """Context of a worker with these connectors in Python."""
    plugins = catalogued(more=map(described, connectors))
    return Context(profile=KIP, plugins=plugins)


# --- Kafka's own --------------------------------------------------------------------------------


def test_kafkas_own_connectors_have_hooks() -> None:
    """Kafka's own connectors have hooks, each with its own check."""
    plugins = catalogued()
    for name in ("FileStreamSource", "MirrorSource", "MirrorHeartbeat", "MirrorCheckpoint"):
        hook = plugins.hook(name, KIP)
        assert hook is not None
        assert isinstance(hook({"name": "x", "file": "/a"}, ((None, {"offset": 1}),)), HookFailure)
    sinks = plugins.hook("FileStreamSink", KIP)
    assert sinks is not None
    assert sinks({}, ()) == HookSuccess(definite=True)


@pytest.mark.parametrize(
    ("tool", "types"),
    [
        ("VerifiableSink", ["source", "sink", "unknown", "unknown"]),
        ("VerifiableSource", ["source", "source", "unknown", "unknown"]),
        ("MockSink", ["sink", "sink", "unknown", "unknown"]),
    ],
)
def test_a_class_has_the_type_of_the_workers_release(tool: str, types: list[str]) -> None:
    """A worker answers `unknown` for a class that its release lacks.

    `VerifiableSinkConnector` extended `SourceConnector` until 3.2.
    """
    plugins = catalogued()
    profiles = [Profile.of(release) for release in ("3.0.2", "3.4.1", "3.6.2", "kip")]
    assert [plugins.type_of(tool, profile) for profile in profiles] == types
    hooks = [plugins.hook(tool, profile) is None for profile in profiles]
    assert hooks == [plugin_type == "unknown" for plugin_type in types]


def test_words_of_all_releases_are_understood() -> None:
    """The descriptions of valid values are parsed for old releases, too."""
    own = kafkas_own()
    keys = [key for keys in own.definitions.values() for key in keys]
    keys += [key for plugin in own.plugins for key in plugin.config or ()]
    assert len(keys) > 500
    assert {"[1,...]", "valid regex"} <= {words for key in keys for words in key.all_valid}


# --- connectors in Python -----------------------------------------------------------------------


def test_a_connector_in_python_is_a_plugin_among_others() -> None:
    """A connector in Python is found by its class, and its config is validated."""
    where = context(Orders)
    assert where.plugins.type_of(ORDERS, KIP) == "source"
    config = {"name": "x", "connector.class": ORDERS}
    assert refusal({**config, "table": "orders"}, where) is None
    refused = refusal(config, where)
    assert refused is not None
    assert 'Missing required configuration "table"' in (refused.text or "")


MODIFYING = "Failed to modify offsets for source connector x"


@pytest.mark.parametrize(
    ("behaviour", "outcome"),
    [
        ("accept", HookSuccess(definite=True)),
        ("decline", HookSuccess(definite=False)),
        ("refuse", HookFailure("no row for 0 offsets")),
        (
            "cannot",
            HookFailure(
                "Failed to modify offsets for connector x because it doesn't support external "
                "modification of offsets"
            ),
        ),
        ("break", HookFailure(MODIFYING, "RuntimeError('out of luck')")),
        ("exit", HookFailure(MODIFYING, "SystemExit(1)")),
        ("cancel", HookFailure(MODIFYING, "CancelledError()")),
    ],
)
def test_an_answer_of_a_hook_becomes_the_outcome(
    behaviour: str, outcome: HookSuccess | HookFailure
) -> None:
    """A hook's answer or exception becomes the outcome of a worker."""
    hook = described(Orders).hook
    assert hook is not None
    assert _without_place(hook({"name": "x", "alter": behaviour}, ())) == outcome


def test_a_hook_gets_the_defaults_of_its_class() -> None:
    """The config in the log lacks them; the hook reads it as the tasks do."""
    hook = described(Orders).hook
    assert hook is not None
    assert hook({"name": "x"}, ()) == HookSuccess(definite=True)


class AsyncOrders(Orders):
    """Has an `async def alter_offsets`, whose coroutine counts as true."""

    @staticmethod
    async def alter_offsets(  # type: ignore[override]
        config: Mapping[str, Any], offsets: Offsets
    ) -> bool:
        """Refuse all offsets."""
        raise ValueError(f"no row for {len(offsets)} offsets in {config}")


def test_an_async_hook_agrees_to_nothing() -> None:
    """The hook has not run, so the change of offsets fails."""
    hook = described(AsyncOrders).hook
    assert hook is not None
    outcome = hook({"name": "x"}, ())
    assert isinstance(outcome, HookFailure)
    assert (outcome.text, "alter_offsets is an async def" in str(outcome.detail)) == (
        MODIFYING,
        True,
    )


def _without_place(outcome: HookOutcome) -> HookOutcome:
    """Return the outcome; its detail ends with a line of this file, which is left out."""
    if isinstance(outcome, HookSuccess) or not outcome.detail:
        return outcome
    detail, _, place = outcome.detail.rpartition(" at ")
    assert place.startswith(f"{__file__}:")
    return HookFailure(outcome.text, detail)


def test_only_an_interrupt_in_the_main_thread_is_ctrl_c() -> None:
    """Ctrl-C reaches the main thread only; in a hook it is the connector's own error."""
    hook = described(Orders).hook
    assert hook is not None
    config = {"name": "x", "alter": "interrupt"}
    with ThreadPoolExecutor(1) as threads:
        outcome = threads.submit(hook, config, ()).result()
    assert _without_place(outcome) == HookFailure(MODIFYING, "KeyboardInterrupt()")
    with pytest.raises(KeyboardInterrupt):
        hook(config, ())


def test_a_connector_without_a_hook_gives_no_definite_answer() -> None:
    """A connector without a hook behaves as Kafka's base class: no definite answer."""
    plugin = described(Silent)
    hook = catalogued(more=[plugin]).hook(plugin.class_name, KIP)
    assert hook is not None
    assert hook({}, ()) == HookSuccess(definite=False)


def changing_hook(config: Mapping[str, Any], offsets: Offsets) -> HookSuccess:
    """A hook that changes its arguments."""
    mine: Any = config
    mine["table"] = "stolen"
    mine["nested"]["list"].append(1)
    for _, offset in offsets:
        taken: Any = offset
        taken.clear()
    return HookSuccess(definite=True)


def test_a_hook_receives_copies() -> None:
    """A hook receives copies: the published config and the planned offsets stay unchanged."""
    plugin = Plugin(class_name="m.Meddler", type="source", hook=changing_hook)
    hook = catalogued(more=[plugin]).hook("m.Meddler", KIP)
    assert hook is not None
    config = {"table": "orders", "nested": {"list": []}}
    offsets = (({"p": 1}, {"o": 2}),)
    assert hook(config, offsets) == HookSuccess(definite=True)
    assert config == {"table": "orders", "nested": {"list": []}}
    assert offsets == (({"p": 1}, {"o": 2}),)


def test_a_hook_is_called_with_deeply_nested_values() -> None:
    """A hook is called with config values that are nested deeper than Python's call stack."""
    deep: Any = "x"
    for _ in range(5_000):
        deep = [deep]
    hook = catalogued(more=[described(Orders)]).hook(ORDERS, KIP)
    assert hook is not None
    assert hook({"alter": "accept", "deep": deep}, ()) == HookSuccess(definite=True)


class Lamp:
    """Connector whose kind is neither source nor sink."""

    kind = "lamp"
    version = "1"
    config = ()


class Wordy(Silent):
    """Connector whose setting names an unknown validator."""

    config = (ConfigKey(name="k", type="INT", valid=("an odd number",)),)  # type: ignore[assignment]


class Typed(Silent):
    """Connector whose setting has an unknown type."""

    config = (ConfigKey(name="k", type=0),)  # type: ignore[arg-type, assignment]


class Important(Silent):
    """Connector whose setting has an unknown importance."""

    config = (ConfigKey(name="k", type="INT", importance="high"),)  # type: ignore[arg-type, assignment]


class Numbered(Silent):
    """Connector whose version is a number."""

    version = 1  # type: ignore[assignment]


class Listing(Silent):
    """Connector that lists the names of its keys."""

    config = ("k",)  # type: ignore[assignment]


class Counted(Silent):
    """Connector whose keys are a number."""

    config = 5  # type: ignore[assignment]


class Unlisted(Silent):
    """Connector with a key in place of a list of keys."""

    config = key("k")  # type: ignore[assignment]


class Assuring(Silent):
    """Connector that gives Kafka's word in place of a boolean."""

    exactly_once = "supported"


class Bounded(Silent):
    """Connector whose boundaries of transactions are a list."""

    boundaries = ()


@pytest.mark.parametrize(
    ("connector", "message"),
    [
        (Assuring, "its exactly_once is 'supported', not True or False"),
        (Bounded, r"its boundaries is \(\), not True or False"),
        (
            Counted,
            r"its config is 5, which is no list of ConfigKey: write it like config = \(key\(",
        ),
        (Unlisted, r"its config is ConfigKey\(.*, which is no list of ConfigKey"),
        (Numbered, "its version is 1, which is no text"),
        (Listing, "its config holds 'k', which is no ConfigKey"),
        (Typed, "its key 'k' has the unknown type 0"),
        (Important, "its key 'k' has the unknown importance 'high'"),
        (Lamp, "its kind is 'lamp': use one of source, sink, transformation, predicate"),
        (Wordy, "k: 'an odd number' does not describe valid values"),
        (object, "has no attribute 'kind'"),
    ],
)
def test_classes_that_are_no_connector_are_refused(connector: Any, message: str) -> None:
    """The error names the class and the missing part."""
    with pytest.raises(Unloadable, match=f"{connector.__qualname__} is no connector: .*{message}"):
        described(connector)


def test_a_module_that_exits_does_not_end_the_process(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The error names the module's package, although the module calls `sys.exit`."""
    (tmp_path / "exiting.py").write_text("raise SystemExit('libfoo is missing')")
    declare(monkeypatch, tmp_path, a="exiting:A")
    with pytest.raises(Unloadable, match=r"SystemExit.*libfoo is missing.* package declaring"):
        in_python()


def test_declared_connectors_are_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Entry points of one group declare connectors."""
    declare(monkeypatch, tmp_path, a="declared:A")
    assert [plugin.class_name for plugin in in_python()] == ["declared.A"]


@pytest.mark.parametrize("listed", [False, True])
def test_declared_connectors_are_not_all_there_are(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, *, listed: bool
) -> None:
    """A catalogue hides Kafka's connectors that it does not list; a package hides none."""
    declare(monkeypatch, tmp_path, a="declared:A")
    catalogue = b'[{"class": "org.example.Listed", "type": "sink"}]' if listed else b"[]"
    plugins = catalogued(catalogue, in_python())
    where = Context(profile=KIP, plugins=plugins)
    assert plugins.type_of("declared.A", KIP) == plugins.type_of("A", KIP) == "source"
    assert plugins.type_of("FileStreamSource", KIP) == ("unknown" if listed else "source")
    assert refusal({"name": "x", "connector.class": "org.example.Other"}, where) is not None


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("nowhere:B", "nowhere:B cannot be loaded: ModuleNotFoundError"),
        ("declared:B", "declared:B cannot be loaded: AttributeError"),
        ("declared:not_a_class", "declared:not_a_class is no class"),
        ("declared B", "'declared B' names no class: write it like package.module:Class"),
        ("builtins:object", "builtins.object is no connector: "),
    ],
)
def test_a_wrong_declaration_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, value: str, message: str
) -> None:
    """The error names the declaration, its fault, and the package."""
    declare(monkeypatch, tmp_path, b=value)
    who = r".* \(declared as b by the package declaring: mend or uninstall it\)$"
    with pytest.raises(Unloadable, match=f"^{message}{who}"):
        in_python()

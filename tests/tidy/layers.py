"""Rules about allowed imports."""

import ast
import re
import sys
from collections.abc import Iterable, Iterator, Mapping

from tests.tidy.source import PACKAGES, Offence, SourceFile

CORE = {"controlplane.core"}
BESIDE = {
    f"controlplane.{name}"
    for name in (
        "settings",
        "private_files",
        "logger_levels",
        "notices",
        "observe",
        "event_loop",
        "failure_text",
        "plugins",
        "tls",
        "unrun_calls",
    )
}
TERMINAL = {"controlplane.terminal"}
LOGS = {"controlplane.logs"}
PROJECTION = {"controlplane.projection"}
CONTROLLER = {"controlplane.controller"}
REST = {"controlplane.rest"}
PLANE = {"controlplane.plane", "controlplane.plane_settings"}
PAGE = {"controlplane.page"}
WORKER_API = {"controlplane.worker_api"}
BELOW_CONTROLLER = CORE | BESIDE | LOGS | PROJECTION
BELOW_REST = BELOW_CONTROLLER | CONTROLLER
REST_AND_BELOW = BELOW_REST | PAGE | REST

LAYERS: dict[str, set[str]] = {
    "controlplane.core": set(),
    **dict.fromkeys(BESIDE, CORE | BESIDE),
    "controlplane.harvest": CORE | BESIDE,
    "controlplane.logs": CORE | BESIDE,
    "controlplane.worker_api": set(),
    "controlplane.page": CORE,  # HTML helpers of `replay report` and of pages of the service
    "controlplane.connect": CORE,
    "controlplane.connectors": CORE | {"controlplane.connect"},
    "controlplane.garbage_collection": set(),
    "controlplane.projection": CORE | BESIDE | LOGS,
    "controlplane.controller": BELOW_CONTROLLER,
    "controlplane.plane_settings": BELOW_REST | {"controlplane.plane"},
    "controlplane.rest": BELOW_REST | PAGE,
    "controlplane.plane": BELOW_REST,
    "controlplane.worker": BELOW_REST
    | {"controlplane.plane", "controlplane.connect", "controlplane.connectors"},
    "controlplane.read_only": REST_AND_BELOW,
    "controlplane.attached": REST_AND_BELOW | WORKER_API | {"controlplane.read_only"},
    "controlplane.terminal": CORE | BESIDE | LOGS,
    "controlplane.client": REST_AND_BELOW
    | PLANE
    | TERMINAL
    | WORKER_API
    | {"controlplane.harvest", "controlplane.read_only"},
    # A scenario sends requests, and names the command that installs a missing extra.
    "controlplane.scenario": REST_AND_BELOW | TERMINAL,
    # `replay` takes the login to a cluster from the worker's settings.
    "replay": CORE
    | LOGS
    | TERMINAL
    | PAGE
    | {
        f"controlplane.{name}"
        for name in ("event_loop", "settings", "private_files", "garbage_collection")
    },
}
"""Per part of the program, the other parts it may import. A part in `TOP` is not listed: it may
import every part of `controlplane`, and no part imports it."""

LATER = {"controlplane.plane": REST}
"""Parts that may be imported inside a function only: `plane.app` imports HTTP at its first use."""

TOP = {"controlplane", "controlplane.cli", "controlplane.__main__"}

IMPURE = {
    *("asyncio", "logging", "os", "random", "secrets", "select", "selectors", "signal"),
    *("socket", "sqlite3", "subprocess", "threading", "time", "uuid", "pathlib", "io"),
    *("linecache", "traceback"),
}
"""Modules with effects or chance: time, randomness, identity, files, other processes.

A traceback quotes the lines of source files.
"""

PRESENT = {"now", "today", "utcnow"}
"""Methods of `datetime` that read the clock."""

Layers = Mapping[str, set[str]]


def dead_names(sources: Iterable[SourceFile], rules: Layers) -> set[str]:
    """Names in a table of layers that no module or package has: rules about them check nothing."""
    modules = {source.module for source in sources if source.in_package}
    return {*rules}.union(*rules.values()) - modules


def documented_layers(document: str) -> dict[str, tuple[set[str], set[str]]]:
    """The table of imports: for each package, the allowed ones, and those inside a function only.

    "and below" adds everything that the named packages may import. Names of the standard library
    and of other projects are not formatted as code in the table.
    """
    table = document.partition("| Package | May import |")[2].partition("\n\n")[0]
    layers: dict[str, tuple[set[str], set[str]]] = {}
    for row in table.splitlines()[2:]:
        packages, cell = (column.strip() for column in row.strip("|").split("|"))
        own = _packages(packages)
        at_once, _, later = cell.partition("; later ")
        allowed = _packages(at_once)
        if "each other" in cell:
            allowed |= own
        if "and below" in cell:
            allowed = allowed.union(*(layers[name][0] for name in allowed))
        layers |= dict.fromkeys(own, (allowed, _packages(later)))
    return layers


def _packages(cell: str) -> set[str]:
    """Full names of the packages that a cell formats as code."""
    names = re.findall(r"`([\w.]+)`", cell)
    return {name if name in PACKAGES else f"controlplane.{name}" for name in names}


COMPOSITION_ROOT = "controlplane.rest.service"
"""The module that builds the service of a log, for programs and for tests."""

ONLY_IN = {"aiokafka": "controlplane/logs/kafka/", "pyspark": "replay/"}


def deferred(source: SourceFile) -> set[int]:
    """Lines inside of functions or under `if TYPE_CHECKING`, whose imports run later or never."""
    within = (ast.FunctionDef, ast.AsyncFunctionDef)
    return {
        line
        for node in source.nodes(*within, ast.If)
        if not isinstance(node, ast.If) or is_for_types(node)
        for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }


def is_for_types(condition: ast.If) -> bool:
    """True for `if TYPE_CHECKING`."""
    return isinstance(condition.test, ast.Name) and condition.test.id == "TYPE_CHECKING"


def imports(source: SourceFile) -> Iterator[tuple[int, str]]:
    """Each imported module with its line; `from a import b` yields `a.b`."""
    for plain in source.nodes(ast.Import):
        yield from ((plain.lineno, alias.name) for alias in plain.names)
    for node in source.nodes(ast.ImportFrom):
        base = _absolute(node, source)
        yield from ((node.lineno, f"{base}.{alias.name}") for alias in node.names)


def _absolute(node: ast.ImportFrom, source: SourceFile) -> str:
    if not node.level:
        return node.module or ""
    parts = source.package.split(".")
    kept = parts[: len(parts) - node.level + 1]
    return ".".join([*kept, *([node.module] if node.module else [])])


def part(module: str) -> str | None:
    """The part of the program that a module belongs to; None for foreign modules."""
    names = module.split(".")
    if names[0] not in PACKAGES:
        return None
    if names[0] == "replay" or len(names) == 1:
        return names[0]
    package = ".".join(names[:2])
    return package if package in LAYERS or package in TOP else names[0]


def layers(source: SourceFile) -> Iterator[Offence]:
    """A part imports only parts below it, and no part imports `replay`."""
    own = part(source.module)
    if own is None:
        return
    allowed = LAYERS.get(own, {*LAYERS, *TOP} - {"replay"}) | {own}
    later = deferred(source) if own in LATER else set()
    for line, module in imports(source):
        other = part(module)
        if line in later and other in LATER[own]:
            continue
        if other is not None and other not in allowed:
            yield Offence(line, f"{own} may not import {module}")


def pure_core(source: SourceFile) -> Iterator[Offence]:
    """`core/` imports msgspec and the pure part of the standard library."""
    if not source.inside("controlplane/core/"):
        return
    allowed = set(sys.stdlib_module_names) - IMPURE | {"msgspec", "controlplane"}
    for line, module in imports(source):
        if module.split(".")[0] not in allowed:
            yield Offence(line, f"core may not import {module}")
    for node in source.nodes(ast.Attribute):
        if node.attr in PRESENT:
            yield Offence(node.lineno, f"core may not read the clock (.{node.attr})")


def one_place(source: SourceFile) -> Iterator[Offence]:
    """Only one folder imports Kafka's client (aiokafka), and only one package pyspark."""
    if not source.in_package:
        return
    for line, module in imports(source):
        home = ONLY_IN.get(module.split(".")[0])
        if home and not source.inside(home):
            yield Offence(line, f"{module} belongs into {home}")


def one_composition_root(source: SourceFile) -> Iterator[Offence]:
    """Only `compose` builds a `Service`; so no program and no test leaves out one of its parts."""
    imported = {name for _, name in imports(source)}
    if not imported & {COMPOSITION_ROOT, f"{COMPOSITION_ROOT}.Service"}:
        return
    for node in source.nodes(ast.Call):
        match node:
            case ast.Call(func=ast.Name(id="Service") | ast.Attribute(attr="Service")):
                yield Offence(node.lineno, f"a Service is built by {COMPOSITION_ROOT}.compose")

"""Rules about who may import what."""

import ast
import sys
from collections.abc import Iterator

from tests.tidy.source import PACKAGES, Offence, SourceFile

CORE = {"controlplane.core"}
BESIDE = {
    f"controlplane.{name}"
    for name in (
        "settings",
        "private_files",
        "logger_levels",
        "observe",
        "clock",
        "plugins",
        "tls",
    )
}
TERMINAL = {"controlplane.terminal"}
LOGS = {"controlplane.logs"}
EVENT_LOOP = {"controlplane.event_loop"}
PROJECTION = {"controlplane.projection"}
CONTROLLER = {"controlplane.controller"}
REST = {"controlplane.rest"}
PLANE = {"controlplane.plane", "controlplane.settings.plane"}
PAGE = {"controlplane.page"}
WORKER_HTTP = {"controlplane.worker_http"}
BELOW_CONTROLLER = CORE | BESIDE | LOGS | EVENT_LOOP | PROJECTION
BELOW_REST = BELOW_CONTROLLER | CONTROLLER

LAYERS: dict[str, set[str]] = {
    "controlplane.core": set(),
    **dict.fromkeys(BESIDE, CORE | BESIDE),
    "controlplane.harvest": CORE | BESIDE,
    "controlplane.logs": CORE | BESIDE,
    "controlplane.worker_http": set(),
    "controlplane.page": CORE,  # HTML helpers of `replay report` and of pages of the service
    "controlplane.event_loop": set(),
    "controlplane.garbage_collection": set(),
    "controlplane.projection": CORE | BESIDE | LOGS | EVENT_LOOP,
    "controlplane.controller": BELOW_CONTROLLER,
    "controlplane.settings.plane": BELOW_REST | {"controlplane.plane"},
    "controlplane.rest": BELOW_REST | PAGE,
    "controlplane.plane": BELOW_REST,
    "controlplane.read_only": BELOW_REST | REST,
    "controlplane.attached": BELOW_REST | REST | WORKER_HTTP | {"controlplane.read_only"},
    "controlplane.terminal": CORE | BESIDE | LOGS,
    "controlplane.client": BELOW_REST
    | REST
    | PLANE
    | TERMINAL
    | WORKER_HTTP
    | {"controlplane.harvest", "controlplane.read_only"},
    # Requests are among the verbs of a scenario; a missing extra is named as by a command.
    "controlplane.scenario": BELOW_REST | REST | TERMINAL,
    # Of a worker's settings it takes how to get in to its cluster.
    "replay": CORE
    | LOGS
    | TERMINAL
    | PAGE
    | {f"controlplane.{name}" for name in ("clock", "settings", "private_files")},
}
"""Per part of the program, the other parts it may import. What is not listed (the command line,
`__main__`, the package itself) may import every part of `controlplane`, and nobody imports it."""

LATER = {"controlplane.plane": REST}
"""Per part, those that it may import inside a function: `plane.app` imports HTTP when asked for."""

TOP = {"controlplane", "controlplane.cli", "controlplane.__main__"}

IMPURE = {
    *("asyncio", "logging", "os", "random", "secrets", "select", "selectors", "signal"),
    *("socket", "sqlite3", "subprocess", "threading", "time", "uuid", "pathlib", "io"),
}
"""Modules that let the world in: time, chance, identity, files, other processes."""

PRESENT = {"now", "today", "utcnow"}
"""Methods of `datetime` that read the clock."""

ONLY_IN = {"aiokafka": "controlplane/logs/kafka/", "pyspark": "replay/"}


def deferred(source: SourceFile) -> set[int]:
    """Lines inside of functions or under `if TYPE_CHECKING`: what they import is not yet needed."""
    within = (ast.FunctionDef, ast.AsyncFunctionDef)
    return {
        line
        for node in ast.walk(source.tree)
        if isinstance(node, within)
        or (isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING")
        for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }


def imports(source: SourceFile) -> Iterator[tuple[int, str]]:
    """Each imported module with its line; `from a import b` also as `a.b`, which may be one."""
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
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
    for length in (3, 2):
        known = ".".join(names[:length])
        if known in LAYERS or known in TOP:
            return known
    return names[0]


def layers(source: SourceFile) -> Iterator[Offence]:
    """A part imports only those below it, and nothing imports `replay`."""
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
    """`core/` knows the standard library, without the world, and msgspec."""
    if not source.inside("controlplane/core/"):
        return
    foreign = set(sys.stdlib_module_names) - IMPURE | {"msgspec", "controlplane"}
    for line, module in imports(source):
        if module.split(".")[0] not in foreign:
            yield Offence(line, f"core may not import {module}")
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Attribute) and node.attr in PRESENT:
            yield Offence(node.lineno, f"core may not read the clock (.{node.attr})")


def one_place(source: SourceFile) -> Iterator[Offence]:
    """Kafka's client (aiokafka) is wrapped in one folder, pyspark used in one package."""
    if not source.in_package:
        return
    for line, module in imports(source):
        home = ONLY_IN.get(module.split(".")[0])
        if home and not source.inside(home):
            yield Offence(line, f"{module} belongs into {home}")

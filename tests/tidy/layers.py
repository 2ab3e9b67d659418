"""Rules about who may import what."""

import ast
import sys
from collections.abc import Iterator

from tests.tidy.source import PACKAGES, Offence, Source

CORE = {"controlplane.core"}
BESIDE = {
    f"controlplane.{name}"
    for name in (
        "settings",
        "properties",
        "private_files",
        "security",
        "observe",
        "option_names",
        "clock",
        "extras",
        "plugins",
        "shell_completion",
        "table_layout",
        "table_text",
    )
}
SHARED_CLI = {
    f"controlplane.{name}"
    for name in ("option_names", "shell_completion", "table_layout", "table_text")
}
LOGS = {"controlplane.logs"}
STATE = {
    f"controlplane.{name}"
    for name in (
        "controller",
        "event_loop",
        "follower",
        "loading",
        "asof",
        "recent",
        "retention",
        "snapshots",
        "watching",
    )
}
REST = {"controlplane.rest"}
BELOW_REST = CORE | BESIDE | LOGS | STATE

LAYERS: dict[str, set[str]] = {
    "controlplane.core": set(),
    **dict.fromkeys(BESIDE, CORE | BESIDE),
    "controlplane.harvest": CORE | BESIDE,
    "controlplane.logs": CORE | BESIDE,
    **dict.fromkeys(STATE, CORE | BESIDE | LOGS | STATE),
    "controlplane.rest": BELOW_REST,
    "controlplane.worker": BELOW_REST,
    "controlplane.scenario": BELOW_REST | REST,  # requests are among the verbs of a scenario
    # Of a worker's settings it takes how to get in to its cluster.
    "replay": CORE
    | LOGS
    | SHARED_CLI
    | {f"controlplane.{one}" for one in ("clock", "settings", "private_files", "extras")},
}
"""Per part of the program, the other parts it may import. What is not listed (the command line,
`__main__`, the package itself) may import every part of `controlplane`, and nobody imports it."""

TOP = {"controlplane", "controlplane.cli", "controlplane.__main__"}

IMPURE = {
    *("asyncio", "logging", "os", "random", "secrets", "select", "selectors", "signal"),
    *("socket", "sqlite3", "subprocess", "threading", "time", "uuid", "pathlib", "io"),
}
"""Modules that let the world in: time, chance, identity, files, other processes."""

PRESENT = {"now", "today", "utcnow"}
"""Methods of `datetime` that read the clock."""

ONLY_IN = {"aiokafka": "controlplane/logs/kafka/", "pyspark": "replay/"}


def imports(source: Source) -> Iterator[tuple[int, str]]:
    """Each imported module with its line; `from a import b` also as `a.b`, which may be one."""
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = _absolute(node, source)
            yield from ((node.lineno, f"{base}.{alias.name}") for alias in node.names)


def _absolute(node: ast.ImportFrom, source: Source) -> str:
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
    known = ".".join(names[:2])
    return known if known in LAYERS or known in TOP else names[0]


def layers(source: Source) -> Iterator[Offence]:
    """A part imports only those below it, and nothing imports `replay`."""
    own = part(source.module)
    if own is None:
        return
    allowed = LAYERS.get(own, {*LAYERS, *TOP} - {"replay"}) | {own}
    for line, module in imports(source):
        other = part(module)
        if other is not None and other not in allowed:
            yield Offence(line, f"{own} may not import {module}")


def pure_core(source: Source) -> Iterator[Offence]:
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


def one_place(source: Source) -> Iterator[Offence]:
    """Kafka's client (aiokafka) is wrapped in one folder, pyspark used in one package."""
    if not source.in_package:
        return
    for line, module in imports(source):
        home = ONLY_IN.get(module.split(".")[0])
        if home and not source.inside(home):
            yield Offence(line, f"{module} belongs into {home}")

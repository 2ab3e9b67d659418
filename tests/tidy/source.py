"""The files that the house rules look at, and the form of a rule.

A rule takes one file and answers its offenders: a line number and a few words each.
"""

import ast
import subprocess
from collections.abc import Callable, Iterator
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("controlplane", "replay")


class Offence(NamedTuple):
    """A place that breaks a rule: line number from 1, and what is wrong there."""

    line: int
    what: str


class Source:
    """One file, by its path from the root of the repository, with `/`."""

    def __init__(self, path: str, text: str) -> None:
        self.path = path
        self.text = text

    @cached_property
    def tree(self) -> ast.Module:
        """The file as Python reads it."""
        return ast.parse(self.text, self.path)

    @property
    def module(self) -> str:
        """Dotted name: `controlplane.core.entry`; a package's own name for its `__init__.py`."""
        return self.path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")

    @property
    def package(self) -> str:
        """What relative imports start from."""
        is_package = self.path.endswith("/__init__.py")
        return self.module if is_package else self.module.rpartition(".")[0]

    @property
    def in_package(self) -> bool:
        """Whether it is part of what users install."""
        return self.path.startswith(tuple(f"{name}/" for name in PACKAGES))

    @property
    def is_test(self) -> bool:
        """Whether pytest collects it."""
        return self.path.rpartition("/")[2].startswith("test_")

    def inside(self, *places: str) -> bool:
        """Whether it is one of these files or lies in one of these folders (named with `/`)."""
        return any(self.path.startswith(p) if p.endswith("/") else self.path == p for p in places)


Rule = Callable[[Source], Iterator[Offence]]


def tracked(*patterns: str) -> list[Source]:
    """The files that git tracks or would track, as text; those that are no text are left out."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", *patterns]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    paths = sorted(path for path in listed.split("\0") if path and (ROOT / path).is_file())
    return [source for path in paths if (source := _read(path)) is not None]


def _read(path: str) -> Source | None:
    try:
        return Source(path, (ROOT / path).read_text(encoding="utf-8"))
    except UnicodeDecodeError:
        return None


def offenders(rule: Rule, sources: list[Source]) -> list[str]:
    """Everything in these files that breaks the rule, as `path:line: what`."""
    return [
        f"{source.path}:{offence.line}: {offence.what}"
        for source in sources
        for offence in rule(source)
    ]

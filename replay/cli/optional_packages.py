"""Optional packages of some commands, and `--help` without them.

A command and its options are declared in the module that runs it, which imports these packages. If
one is missing, stand-ins replace all of them; code can reference but not use them. `--help` then
still shows all options, and the command refuses to run before any of its code runs.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, NoReturn

import click

from replay.without_pandas import leave_out_pandas

EXTRAS = {"pyarrow": "replay", "numpy": "replay", "pyspark": "spark", "py4j": "spark"}
"""Optional packages, each with the extra that installs it."""


def declared(module: str, name: str) -> click.Command:
    """Import a command; without its packages, return one that refuses to run."""
    try:
        return _command(module, name)
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing not in EXTRAS:
            raise
    with _stand_ins():
        command = _command(module, name)

    def refuse(**_: Any) -> NoReturn:
        raise ModuleNotFoundError(name=missing)

    command.callback = refuse
    return command


def _command(module: str, name: str) -> click.Command:
    command = getattr(import_module(module), name)
    assert isinstance(command, click.Command)
    leave_out_pandas()
    return command


# --- stand-ins ----------------------------------------------------------------------------------


class _StandIn(ModuleType):
    """A package or anything within it: every attribute and call gives another stand-in."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.__path__ = []

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _StandIn(name)

    def __call__(self, *_: Any, **__: Any) -> Any:
        return _StandIn("called")

    def __getitem__(self, _: Any) -> Any:
        return _StandIn("item")

    def __or__(self, _: Any) -> Any:
        return self

    __ror__ = __or__

    def __iter__(self) -> Iterator[Any]:
        return iter(())

    def __mro_entries__(self, _: tuple[Any, ...]) -> tuple[type, ...]:
        return ()


class _StandInFinder(MetaPathFinder, Loader):
    """Finds every module of the packages, and creates stand-ins."""

    def find_spec(self, fullname: str, *_: Any) -> ModuleSpec | None:
        """Spec of a module of the packages."""
        is_optional = fullname.partition(".")[0] in EXTRAS
        return ModuleSpec(fullname, self, is_package=True) if is_optional else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """Create a stand-in for a module of a missing package."""
        return _StandIn(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Do nothing: a stand-in has no code."""


@contextmanager
def _stand_ins() -> Iterator[None]:
    """Import stand-ins in place of the packages, and remove them afterwards."""
    real = {name: sys.modules.pop(name) for name in [*sys.modules] if _is_extra(name)}
    finder = _StandInFinder()
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
        for name in [module for module in sys.modules if _is_extra(module)]:
            del sys.modules[name]
        sys.modules.update(real)


def _is_extra(module: str) -> bool:
    return module.partition(".")[0] in EXTRAS

"""Classes of connectors from `plugin.path`: Python modules, and directories of them.

An entry that can be a module's name is read as one: `plugins` names a module, `./plugins` a
directory.

A module is imported only if the operator has named it in `plugin.path`. Classes that installed
packages declare are the exception: `controlplane.plugins` imports them at the start. No REST
request imports anything.
"""

import importlib
import importlib.util
import inspect
import sys
from collections.abc import Iterable, Iterator, Mapping
from importlib import metadata
from importlib.metadata import EntryPoint
from pathlib import Path
from traceback import extract_tb
from types import ModuleType
from typing import Any

from controlplane import connectors
from controlplane.connect import Sink, SinkConnector, Source, SourceConnector
from controlplane.connect.transforms import Predicate, Transformation
from controlplane.failure_text import message_of, shortened
from controlplane.plugins import Unloadable, declared_connectors
from controlplane.worker import process_exits
from controlplane.worker.connector_classes import ConnectorClasses, class_name
from controlplane.worker.process_exits import exits_guarded

_BASES = (Source, Sink, SourceConnector, SinkConnector, Transformation, Predicate)

_IMPORTERS = (
    "<frozen importlib._bootstrap>",
    "<frozen importlib._bootstrap_external>",
    importlib.__file__,
    metadata.__file__,
    process_exits.__file__,
)
"""Files of Python's import system, and of the guard of `os._exit`.

The error about a failed import names the author's line, so it skips lines of these files.
"""

SHIPPED = connectors.__name__
"""Module of the connectors that ship with this project."""


def classes_in(plugin_path: Iterable[str], folders: Iterable[Path] = ()) -> ConnectorClasses:
    """Return the connector classes of some modules and directories.

    An empty entry names nothing. A Java worker takes it as the working directory, but looks for
    jars only. Here, each script of the directory would run.

    `folders`: the shipped connectors may open files only below these folders.

    Raises:
        Unloadable: a module or a directory cannot be loaded.
    """
    classes: dict[str, type[Any]] = {}
    with exits_guarded():
        for place in filter(None, plugin_path):  # `Path("")` is the working directory
            classes |= connectors.shipped(folders) if place == SHIPPED else _classes_at(place)
    others = (Transformation, Predicate)
    return ConnectorClasses(
        named={name: plugin for name, plugin in classes.items() if not issubclass(plugin, others)},
        others=[plugin for plugin in classes.values() if issubclass(plugin, others)],
    )


def _classes_at(place: str) -> Mapping[str, type[Any]]:
    """Return the classes of one entry of `plugin.path`.

    Raises:
        Unloadable: a module or a directory cannot be loaded.
    """
    if _is_module_name(place):
        return _in_module(place)
    if Path(place).is_dir():
        return _in_directory(Path(place))
    # An absolute path may name jars of a Java worker: it is ignored unless a directory or a Python
    # file is there.
    is_absolute = Path(place).is_absolute()
    if Path(place).is_file() and (not is_absolute or place.endswith(".py")):
        raise Unloadable(f"plugin.path names {place}, which is a file: name its directory")
    if not is_absolute:
        raise Unloadable(f"plugin.path names {place}, which does not exist: check the directory")
    return {}


def _is_module_name(place: str) -> bool:
    """True if an entry of `plugin.path` can name a module; it then never names a folder."""
    return all(part.isidentifier() for part in place.split("."))


def _in_module(name: str) -> Mapping[str, type[Any]]:
    """Return the classes of a module, and the declared ones of the module and its submodules.

    An installed package declares a class by an entry point (`declared_connectors`).

    Raises:
        Unloadable: it cannot be imported.
    """
    try:
        module = importlib.import_module(name)
    except KeyboardInterrupt:
        raise
    except BaseException as failure:
        raise Unloadable(
            f"plugin.path names {name}, a module that cannot be imported: {_fault(failure)}"
            f"{_directory_hint(name)}"
        ) from failure
    classes = {**_defined_in(module)}
    for point in declared_connectors():
        if point.module == name or point.module.startswith(f"{name}."):
            classes |= _declared(point)
    return classes


def _directory_hint(name: str) -> str:
    return f"; for the directory, write ./{name}" if Path(name).is_dir() else ""


def _declared(point: EntryPoint) -> Mapping[str, type[Any]]:
    """Load an entry point; leave out a class that only declares a config and cannot run."""
    try:
        loaded = point.load()
    except KeyboardInterrupt:
        raise
    except BaseException as failure:
        raise Unloadable(f"{point.value} cannot be loaded: {_fault(failure)}") from failure
    if isinstance(loaded, type) and issubclass(loaded, _BASES):
        return {class_name(loaded): loaded}
    return {}


def _in_directory(folder: Path) -> Mapping[str, type[Any]]:
    """Return the classes of all modules in a directory; a class is called `module.Class`.

    An empty `__init__.py` is no module of its own: several directories may have one.

    Raises:
        Unloadable: a module cannot be loaded, or has the name of another one.
    """
    classes: dict[str, type[Any]] = {}
    for path in sorted(folder.glob("*.py")):
        if not _is_empty_init(path):
            classes |= _defined_in(_loaded(path))
    return classes


def _is_empty_init(path: Path) -> bool:
    return path.name == "__init__.py" and path.is_file() and path.stat().st_size == 0


def _loaded(path: Path) -> ModuleType:
    present = sys.modules.get(path.stem)
    if present is not None and Path(present.__file__ or "").resolve() != path.resolve():
        raise Unloadable(f"{path} has the name of a module that is already loaded: rename it")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise Unloadable(f"{path} is no Python module")
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    try:
        spec.loader.exec_module(module)
    except BaseException as failure:
        del sys.modules[path.stem]
        if isinstance(failure, KeyboardInterrupt):
            raise
        raise Unloadable(f"{path} cannot be loaded: {_fault(failure)}") from failure
    return module


def _fault(failure: BaseException) -> str:
    """Return the text of a failure; file and line of the author's code precede it, if known."""
    if isinstance(failure, SyntaxError) and failure.filename:
        return f"{failure.filename}:{failure.lineno}: {type(failure).__name__}: {failure.msg}"
    message = shortened(message_of(failure))
    reason = f"{type(failure).__name__}: {message}" if message else type(failure).__name__
    frames = extract_tb(failure.__traceback__)[1:]  # the first frame is in this module
    of_author = [frame for frame in frames if frame.filename not in _IMPORTERS]
    return f"{of_author[-1].filename}:{of_author[-1].lineno}: {reason}" if of_author else reason


def _defined_in(module: ModuleType) -> Mapping[str, type[Any]]:
    """Return the plugins that a module defines or exports."""
    return {class_name(connector): connector for connector in _connectors_of(module)}


def _connectors_of(module: ModuleType) -> Iterator[type[Any]]:
    exported = set(getattr(module, "__all__", ()))
    for name, value in vars(module).items():
        if not isinstance(value, type) or not issubclass(value, _BASES) or value in _BASES:
            continue
        is_own = value.__module__ == module.__name__ or name in exported
        if is_own and not name.startswith("_") and not inspect.isabstract(value):
            yield value

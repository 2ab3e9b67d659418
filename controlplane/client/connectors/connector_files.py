"""Connectors in files: the three forms that Connect reads, those of kcctl, and our own output.

| form | where it is from |
|---|---|
| `{"connector.class": …}` | a flat map of strings; the name in it, or told by `-n` |
| `{"name": …, "config": {…}}` | the body of `POST /connectors`; fields of an answer are skipped |
| `connector.class=…` | Java's `.properties` |
| `{"orders": {"info": {…}}}` | `GET /connectors?expand=info`, and `controlplane get -o json` |
| `[…]` | several of the above |

The first three are tried by what the text looks like, not by the file's name; YAML is JSON written
otherwise, and recognised by the file's name.
"""

import codecs
import json
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple, Self

import yaml

from controlplane.client.http.api import check_name
from controlplane.core.text.file_errors import unreadable
from controlplane.settings.properties import SettingsError, located, properties_in
from controlplane.terminal.command_errors import InputRefused

STDIN = "-"
YAML = (".yaml", ".yml")
SUFFIXES = (".json", ".properties", *YAML)
"""Files of a directory that are taken; others lie there for something else."""

REPEATED_MOST = 10_000
"""Number of values that the aliases of a YAML document may add to it."""

ConfigMap = dict[str, str | None]


class DeclaredConnector(NamedTuple):
    """A connector as a file wants it."""

    name: str
    config: ConfigMap
    """With the name in it."""
    initial_state: str | None = None
    initial_offsets: list[Any] | None = None
    source: str = STDIN
    """File that declares the connector."""


def read_wanted(files: Iterable[str], name: str | None = None) -> list[DeclaredConnector]:
    """All connectors in files, directories and standard input; `name` is for one that has none.

    Raises:
        InputRefused: one cannot be read, or two are the same.
    """
    found = [one for file in files for one in _in_file(file, name)]
    if name is not None and len(found) > 1:
        raise InputRefused(
            "-n names one connector, and there are several: write their names into them"
        )
    seen: dict[str, DeclaredConnector] = {}
    for one in found:
        if one.name in seen:
            raise InputRefused(
                f"{one.name} is in {seen[one.name].source} and in {one.source}: which one is meant?"
            )
        seen[one.name] = one
    if not found:
        raise InputRefused(
            f"no connector in {', '.join(files)}: name files, or directories of {_NAMED}"
        )
    return found


_NAMED = ", ".join(f"*{suffix}" for suffix in SUFFIXES)


def _in_file(file: str, name: str | None) -> Iterator[DeclaredConnector]:
    for path in _paths(file):
        text = read_text(str(path), CONNECTORS)
        try:
            for one in _wanted(_parsed(text, path.suffix), name):
                yield one._replace(source=str(path))
        except _NoConnector as error:
            raise InputRefused(f"{path} holds no connector: {error}") from None
        except SettingsError as error:
            raise InputRefused(str(located(str(path), error))) from None
        except RecursionError:
            raise InputRefused(f"{path} holds no connector: it is nested too deeply") from None


def _paths(file: str) -> list[Path]:
    path = Path(file)
    if file == STDIN or not path.is_dir():
        return [path]
    return sorted(one for one in path.iterdir() if one.suffix in SUFFIXES)


CONNECTORS = "connectors in JSON, YAML or .properties"


def read_text(file: str, expected: str) -> str:
    """The text in a file, or on standard input; `expected` says what should be in it.

    Raises:
        InputRefused: it cannot be read, or is no text.
    """
    try:
        content = sys.stdin.buffer.read() if file == STDIN else Path(file).read_bytes()
    except OSError as failure:
        raise InputRefused(unreadable(file, failure)) from None
    if content.startswith(_UTF16) or _CONTROL.search(content):
        raise InputRefused(f"{_called(file)} is no text in UTF-8: give {expected}")
    if not content.strip():
        raise InputRefused(f"{_called(file)} is empty: give {expected}")
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        # Java writes such files in ISO-8859-1, where every byte is a letter.
        return content.decode("iso-8859-1")


def _called(file: str) -> str:
    return "standard input" if file == STDIN else file


_CONTROL = re.compile(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f]")
"""Bytes that no text has, in any of the forms: a binary file has one among its first bytes."""

_UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


# --- what is in it ------------------------------------------------------------------------------


class _NoConnector(ValueError):
    """Reason why a text declares no connector."""


class _Literal(float):
    """A number that remembers how it was written: a config's values are texts (`1.50`)."""

    def __new__(cls, text: str) -> Self:
        made = super().__new__(cls, text)
        made.text = text
        return made

    text: str


class _Yaml(yaml.SafeLoader):
    """YAML as JSON has it: a day is a text, and 1.50 is written so.

    Aliases may repeat a part, and no more: JSON has none, so everything is written out later.
    """

    def get_single_node(self) -> yaml.Node | None:
        """The document, before anything is made of it."""
        root: yaml.Node | None = super().get_single_node()
        if root is not None and _repeated(root) > REPEATED_MOST:
            raise yaml.YAMLError(f"its aliases repeat more than {REPEATED_MOST} values")
        return root

    def number(self, node: yaml.ScalarNode) -> _Literal:
        """A number with a point; what is none after all (`.inf`) is for Python to refuse."""
        return _Literal(self.construct_scalar(node))

    def integer(self, node: yaml.ScalarNode) -> int:
        """A whole number; Python refuses to write one that is very long (`0xff…`, `9:9:…`)."""
        number: int = self.construct_yaml_int(node)
        str(number)
        return number

    def words(self, node: yaml.ScalarNode) -> str:
        """A text as it stands there."""
        return str(self.construct_scalar(node))


def _repeated(root: yaml.Node) -> int:
    """Number of values for which aliases stand, beyond those that are written.

    Raises:
        yaml.YAMLError: one stands for something that it is in.
    """
    sizes: dict[int, int] = {}
    path: list[tuple[yaml.Node, Iterator[yaml.Node]]] = [(root, _parts(root))]
    inside = {id(root)}
    while path:
        node, left = path[-1]
        part = next((one for one in left if id(one) not in sizes), None)
        if part is None:
            sizes[id(node)] = 1 + sum(sizes[id(one)] for one in _parts(node))
            inside.remove(id(node))
            path.pop()
        elif id(part) in inside:
            raise yaml.YAMLError(f"an alias refers to itself in line {part.start_mark.line + 1}")
        else:
            inside.add(id(part))
            path.append((part, _parts(part)))
    return sizes[id(root)] - len(sizes)


def _parts(node: yaml.Node) -> Iterator[yaml.Node]:
    if isinstance(node, yaml.MappingNode):
        return chain.from_iterable(node.value)
    return iter(node.value if isinstance(node, yaml.SequenceNode) else ())


_Yaml.add_constructor("tag:yaml.org,2002:timestamp", _Yaml.words)
_Yaml.add_constructor("tag:yaml.org,2002:float", _Yaml.number)
_Yaml.add_constructor("tag:yaml.org,2002:int", _Yaml.integer)


def document_in(text: str, suffix: str = "") -> Any:
    """A text of JSON or, by the file's suffix, YAML.

    Raises:
        ValueError: it is neither.
    """
    try:
        if suffix in YAML:
            return yaml.load(text, _Yaml)  # noqa: S506 - a safe one
        return json.loads(text.lstrip("\ufeff"), parse_float=_Literal)
    except (ValueError, RecursionError, yaml.YAMLError) as error:
        reason = " ".join(str(error).replace(_UNNAMED, "").split())
        raise _NoConnector(f"it cannot be parsed ({reason})") from None


_UNNAMED = ' in "<unicode string>",'
"""Name that PyYAML gives to every text; the file is named instead."""


def _parsed(text: str, suffix: str) -> Any:
    if suffix in YAML or text.lstrip("\ufeff \t\r\n")[:1] in {"{", "["}:
        return document_in(text, suffix)
    return {one.key: one.value for one in properties_in(text)}


def _wanted(document: Any, name: str | None) -> Iterator[DeclaredConnector]:
    """The connectors in a document, whichever form it has."""
    if isinstance(document, list):
        for one in document:
            yield from _wanted(one, name)
    elif not isinstance(document, dict) or not document:
        raise _NoConnector("it is no map of settings")
    elif isinstance(document.get("config"), dict):
        yield _created(document, name)
    elif isinstance(document.get("connectors"), dict):
        yield from _wanted(document["connectors"], name)
    elif all(isinstance(one, dict) for one in document.values()):
        yield from _expanded(document)
    else:
        yield _flat(document, name)


def _expanded(document: Mapping[str, Any]) -> Iterator[DeclaredConnector]:
    """A map from names to connectors: of `expand=info`, or of a tool that moves them."""
    for key, one in document.items():
        inside = one.get("info", one)
        if not isinstance(inside, dict) or not isinstance(inside.get("config"), dict):
            raise _NoConnector(f"{key!r} has no config")
        yield _created(inside, str(key))


def _created(document: Mapping[str, Any], name: str | None) -> DeclaredConnector:
    told = document.get("name", name)
    found = _flat(document["config"], None if told is None else str(told))
    return found._replace(
        initial_state=document.get("initial_state"),
        initial_offsets=document.get("initial_offsets"),
    )


def _flat(document: Mapping[str, Any], name: str | None) -> DeclaredConnector:
    """A config; the name in it must be the one that it is called by."""
    config = {str(key): _text(str(key), value) for key, value in document.items()}
    inside = config.get("name")
    if name is not None and inside is not None and inside != name:
        raise _NoConnector(f"it is called {name} outside and {inside} inside of its config")
    told = inside or name
    if not told:
        raise _NoConnector("it has no name: write it into it, or say -n NAME")
    check_name(told)
    return DeclaredConnector(told, {**config, "name": told})


def _text(key: str, value: Any) -> str | None:
    """A value as Connect takes it: a text, or the letters of a number or of a boolean."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, _Literal):
        return value.text
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, int):
        return str(value)
    raise _NoConnector(f"the value of {key!r} is no text")

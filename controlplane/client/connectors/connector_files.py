"""Connectors in files: the forms that Connect reads, those of kcctl, and our own output.

| form | where it is from |
|---|---|
| `{"connector.class": …}` | a flat map of strings; the name in it, or given by `-n` |
| `{"name": …, "config": {…}}` | the body of `POST /connectors`; unknown fields are ignored |
| `connector.class=…` | Java's `.properties` |
| `{"orders": {"info": {…}}}` | `GET /connectors?expand=info`, and `controlplane get -o json` |
| `{"connectors": {"orders": {"config": {…}}}}` | a map by name, in the field `connectors` |
| `[…]` | several of the above |

YAML is recognised by the file's suffix, JSON and `.properties` by the text.
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
from controlplane.settings.errors import SettingsError
from controlplane.settings.properties import located, properties_in
from controlplane.terminal.command_errors import InputRefused

STDIN = "-"
YAML = (".yaml", ".yml")
SUFFIXES = (".json", ".properties", *YAML)
"""Suffixes of the files of a directory that are read; others are skipped."""

REPEATED_MOST = 10_000
"""Maximum number of values that aliases may add to a YAML document."""

ConfigMap = dict[str, str | None]


class DeclaredConnector(NamedTuple):
    """Connector as `apply` and `diff` read it from a file or standard input."""

    name: str
    config: ConfigMap
    """With the name in it."""
    initial_state: str | None = None
    initial_offsets: list[Any] | None = None
    source: str = STDIN
    """File that declares the connector."""


def read_declared(files: Iterable[str], name: str | None = None) -> list[DeclaredConnector]:
    """All connectors in files, directories and standard input; `name` is for one that has none.

    Raises:
        InputRefused: a file cannot be read, a file declares a connector with another name than
            `name`, or two connectors share a name.
    """
    connectors = [connector for file in files for connector in _in_file(file, name)]
    if name is not None and len(connectors) > 1:
        raise InputRefused(
            "-n names one connector, and there are several: write the names into the files"
        )
    for connector in connectors:
        if name not in (None, connector.name):
            raise InputRefused(
                f"-n is {name}, but {connector.source} has the connector {connector.name}: leave "
                "out -n, or change the name in the file"
            )
    by_name: dict[str, DeclaredConnector] = {}
    for connector in connectors:
        other = by_name.setdefault(connector.name, connector)
        if other is not connector:
            raise InputRefused(
                f"{connector.name} is in {other.source} and in {connector.source}: remove one"
            )
    if not connectors:
        raise InputRefused(
            f"no connector in {', '.join(files)}: name files, or directories of {_PATTERNS}"
        )
    return connectors


_PATTERNS = ", ".join(f"*{suffix}" for suffix in SUFFIXES)


def _in_file(file: str, name: str | None) -> Iterator[DeclaredConnector]:
    for path in _paths(file):
        text = read_text(str(path), CONNECTORS)
        try:
            for connector in _declared(_parsed(text, path.suffix), name):
                yield connector._replace(source=str(path))
        except _NoConnector as error:
            raise InputRefused(f"{path} has no connector: {error}") from None
        except SettingsError as error:
            raise InputRefused(str(located(str(path), error))) from None
        except RecursionError:
            raise InputRefused(f"{path} has no connector: it is nested too deeply") from None


def _paths(file: str) -> list[Path]:
    path = Path(file)
    if file == STDIN or not path.is_dir():
        return [path]
    return sorted(entry for entry in path.iterdir() if entry.suffix in SUFFIXES)


CONNECTORS = "connectors in JSON, YAML or .properties"


def read_text(file: str, expected: str) -> str:
    """The text of a file or of standard input, without a byte-order mark of UTF-8.

    `expected` describes the file, for errors.

    Raises:
        InputRefused: it cannot be read, is empty, or is no text.
    """
    try:
        content = sys.stdin.buffer.read() if file == STDIN else Path(file).read_bytes()
    except OSError as failure:
        raise InputRefused(unreadable(file, failure)) from None
    if content.startswith(_UTF16) or _CONTROL.search(content):
        raise InputRefused(f"{_display_name(file)} is no text in UTF-8: give {expected}")
    if not content.strip():
        raise InputRefused(f"{_display_name(file)} is empty: give {expected}")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        # Java writes .properties in ISO-8859-1, which has a character for each byte.
        return content.decode("iso-8859-1")


def no_unicode(name: str) -> InputRefused:
    """Error about a connector whose texts UTF-8 cannot encode, so no file can store it."""
    return InputRefused(
        f"no file can hold {name}: a text of its config or offsets has half of a surrogate pair, "
        "or bytes that are no UTF-8. Change the text first"
    )


def _display_name(file: str) -> str:
    return "standard input" if file == STDIN else file


_CONTROL = re.compile(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f]")
"""Control characters that no text has: they show that a file is binary."""

_UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


# --- parsing ------------------------------------------------------------------------------------


class _NoConnector(ValueError):
    """Reason why a text declares no connector."""


class _Literal(float):
    """Number with its original text: a config's values are texts, so `1.50` stays `1.50`."""

    def __new__(cls, text: str) -> Self:
        literal = super().__new__(cls, text)
        literal.text = text
        return literal

    text: str


class _Yaml(yaml.SafeLoader):
    """Loader of YAML with JSON's types: a date is a text, and `1.50` keeps its text.

    Integers are decimal in the config: `0x1F` becomes `31`.

    Aliases are expanded, as JSON has none; the number of values that they add is limited.
    """

    def get_single_node(self) -> yaml.Node | None:
        """The parsed document; refuses too many aliases before they are expanded."""
        root: yaml.Node | None = super().get_single_node()
        if root is not None and _repeated(root) > REPEATED_MOST:
            raise yaml.YAMLError(f"its aliases repeat more than {REPEATED_MOST} values")
        return root

    def number(self, node: yaml.ScalarNode) -> _Literal:
        """Construct a number with a point; `float` refuses `.inf` and the like."""
        return _Literal(self.construct_scalar(node))

    def integer(self, node: yaml.ScalarNode) -> int:
        """Construct an integer; `str` refuses a very long one (`0xff…`, `9:9:…`)."""
        number: int = self.construct_yaml_int(node)
        str(number)
        return number

    def words(self, node: yaml.ScalarNode) -> str:
        """Construct a text as it is written."""
        return str(self.construct_scalar(node))

    def unknown(self, node: yaml.Node) -> None:
        """Refuse a value of a type that JSON lacks."""
        self.construct_undefined(node)


def _repeated(root: yaml.Node) -> int:
    """Number of values that the aliases of a document add to it.

    Raises:
        yaml.YAMLError: an alias refers to a node that contains it.
    """
    # Depth first without recursion, because a document may be nested deeply.
    sizes: dict[int, int] = {}
    path: list[tuple[yaml.Node, Iterator[yaml.Node]]] = [(root, _parts(root))]
    inside = {id(root)}
    while path:
        node, left = path[-1]
        part = next((child for child in left if id(child) not in sizes), None)
        if part is None:
            sizes[id(node)] = 1 + sum(sizes[id(child)] for child in _parts(node))
            inside.remove(id(node))
            path.pop()
        elif id(part) in inside:
            raise yaml.YAMLError(f"an alias refers to itself in line {part.start_mark.line + 1}")
        else:
            inside.add(id(part))
            path.append((part, _parts(part)))
    return sizes[id(root)] - len(sizes)  # all values with aliases expanded, minus the written ones


def _parts(node: yaml.Node) -> Iterator[yaml.Node]:
    if isinstance(node, yaml.MappingNode):
        return chain.from_iterable(node.value)
    return iter(node.value if isinstance(node, yaml.SequenceNode) else ())


_Yaml.add_constructor("tag:yaml.org,2002:timestamp", _Yaml.words)
_Yaml.add_constructor("tag:yaml.org,2002:float", _Yaml.number)
_Yaml.add_constructor("tag:yaml.org,2002:int", _Yaml.integer)
_Yaml.add_constructor("tag:yaml.org,2002:binary", _Yaml.unknown)
_Yaml.add_constructor("tag:yaml.org,2002:set", _Yaml.unknown)


def document_in(text: str, suffix: str = "") -> Any:
    """Parse a text as YAML if the file's suffix says so, else as JSON.

    Raises:
        ValueError: it cannot be parsed.
    """
    try:
        if suffix in YAML:
            return yaml.load(text, _Yaml)  # noqa: S506 - a safe one
        return json.loads(text, parse_float=_Literal)
    except (ValueError, LookupError, RecursionError, yaml.YAMLError) as error:
        reason = " ".join(str(error).replace(_UNNAMED, "").split())
        raise _NoConnector(f"it cannot be parsed ({reason})") from None


_UNNAMED = ' in "<unicode string>",'
"""Name that PyYAML gives to every text; our messages name the file instead."""


def _parsed(text: str, suffix: str) -> Any:
    if suffix in YAML or text.lstrip(" \t\r\n")[:1] in {"{", "["}:
        return document_in(text, suffix)
    return {setting.key: setting.value for setting in properties_in(text)}


def _declared(document: Any, name: str | None) -> Iterator[DeclaredConnector]:
    """Yield the connectors of a document of any form."""
    if isinstance(document, list):
        for element in document:
            yield from _declared(element, name)
    elif not isinstance(document, dict) or not document:
        raise _NoConnector("it is no map of settings")
    elif isinstance(document.get("config"), dict):
        yield _with_config(document, name)
    elif isinstance(document.get("connectors"), dict):
        yield from _declared(document["connectors"], name)
    elif all(isinstance(member, dict) for member in document.values()):
        yield from _expanded(document)
    else:
        yield _flat(document, name)


def _expanded(document: Mapping[str, Any]) -> Iterator[DeclaredConnector]:
    """Yield the connectors of a map by name, such as the answer to `expand=info`."""
    for key, member in document.items():
        info = member.get("info", member)
        if not isinstance(info, dict) or not isinstance(info.get("config"), dict):
            raise _NoConnector(f"{key!r} has no config")
        yield _with_config(info, _key(key))


def _with_config(document: Mapping[str, Any], name: str | None) -> DeclaredConnector:
    """Connector from the body of `POST /connectors`, or from an answer like it."""
    given_name = document.get("name", name)
    flat = _flat(document["config"], None if given_name is None else _key(given_name))
    return flat._replace(
        initial_state=document.get("initial_state"),
        initial_offsets=document.get("initial_offsets"),
    )


def _flat(document: Mapping[str, Any], name: str | None) -> DeclaredConnector:
    """Connector from its config; a name in the config must equal `name`."""
    config = {_key(key): _text(str(key), value) for key, value in document.items()}
    inside = config.get("name")
    if name is not None and inside is not None and inside != name:
        raise _NoConnector(f"its name is {name}, but its config names it {inside}: make them equal")
    chosen = inside or name
    if not chosen:
        raise _NoConnector("it has no name: add one to the file (`apply` also takes -n NAME)")
    check_name(chosen)
    return DeclaredConnector(chosen, {**config, "name": chosen})


def _key(value: Any) -> str:
    """A name or a key as text; in YAML it may be a number or a boolean."""
    return str(_text(str(value), value))


def _text(key: str, value: Any) -> str | None:
    """Value of a config as text, as Connect converts it: `true`, `1.50`."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, _Literal):
        return value.text
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, int):
        return str(value)
    raise _NoConnector(f"the value of {key!r} is no text")

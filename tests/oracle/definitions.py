"""Writes `controlplane/catalogues/`: the definitions of Kafka's own classes in every release.

python -m tests.oracle.definitions          writes the files
python -m tests.oracle.definitions --check  exits with code 1 if the files are not current

`Definitions.java` of `controlplane.harvest` lists the definitions of one release. This module turns
the lists of all releases into rows, as `core.configdef.spans` reads them. A row holds the newest
release's definition, its differences in older releases, and the span of releases.
`HANDWRITTEN` adds properties that Kafka's classes decide in code. The rows hold no documentation:
`descriptions.json` describes the settings in our own words.
"""

import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import Any

from tests import harvested_catalogues
from tests.jars import ROOT

FOLDER = ROOT / "controlplane" / "catalogues"

ASKED = (
    *("2.0.0", "2.1.0", "2.1.1", "2.2.0", "2.3.0", "2.4.0", "2.5.0", "2.6.0", "2.7.0", "2.7.2"),
    *("2.8.0", "2.8.2", "3.0.0", "3.0.1", "3.0.2", "3.1.0", "3.1.1", "3.2.0", "3.3.0", "3.3.2"),
    *("3.4.0", "3.5.0", "3.5.1", "3.6.0", "3.6.2", "3.7.0", "3.7.1", "3.8.0", "3.8.1", "3.9.0"),
    *("4.0.0", "4.1.0", "4.2.0", "4.3.0"),
)
"""The first release of every line, and releases that changed a definition within a line.

Some releases are there for MirrorMaker. Older releases are treated like the first one here.
"""

DefinedKey = dict[str, Any]
DefinitionRow = dict[str, Any]
_ReleaseAnswers = Mapping[str, Mapping[str, Any]]
_Definition = tuple[str, Sequence[DefinedKey]]
"""A release, and the keys that it defines, in their order."""

CONNECT = "org.apache.kafka.connect."
MIRRORS = f"{CONNECT}mirror.Mirror"
CLIENTS = ("producer", "consumer", "admin")

KINDS = {
    "transformations": "transformation",
    "predicates": "predicate",
    "converters": "converter",
    "headerConverters": "header_converter",
}
"""Types of plugin by the getter of `Plugins` that a worker uses.

The getter decides: a class that is a plugin of two types may report the other type.
"""

LISTED_SINCE = ("header_converter", "3.2.0")
"""A kind of plugin that older workers have but do not list, and the first release that lists it."""

WORKERS = "that of the worker"

HANDWRITTEN: Mapping[str, DefinitionRow] = {
    f"{CONNECT}file.FileStreamSourceConnector": {
        "exactly_once": "if it reads a file",
        "alter_offsets": "as FileStreamSourceConnector",
        "before": [{"until": "3.4.0", "exactly_once": None}],  # KAFKA-14017
    },
    f"{CONNECT}file.FileStreamSinkConnector": {"alter_offsets": "accepts"},
    f"{MIRRORS}SourceConnector": {
        "exactly_once": "if it reads committed",
        "checks": "reads committed, offset syncs",
        "alter_offsets": "as MirrorSourceConnector",
        "before": [
            {"until": "3.9.0", "checks": "reads committed"},
            {"until": "3.5.0", "exactly_once": None, "checks": None},  # KAFKA-14021
        ],
    },
    f"{MIRRORS}HeartbeatConnector": {"alter_offsets": "as MirrorHeartbeatConnector"},
    f"{MIRRORS}CheckpointConnector": {
        "checks": "checkpoints, offset syncs",
        "alter_offsets": "as MirrorCheckpointConnector",
        "before": [{"until": "3.9.0", "checks": None}],
    },
}
"""Behaviour of classes beyond their definitions."""

IMPLIED = (
    {
        "name": "predicate",
        "type": "STRING",
        "default": None,
        "since": "2.6.0",
        "before": [{"until": "3.5.0", "default": ""}],
    },
    {
        "name": "negate",
        "type": "BOOLEAN",
        "default": "false",
        "since": "2.6.0",
    },
)
"""Keys that every transformation has, whatever it defines (KIP-585)."""


# --- asking -------------------------------------------------------------------------------------


def answer(release: str) -> Mapping[str, Any]:
    """Return Kafka's definitions of a release."""
    harvested: Mapping[str, Any] = json.loads(harvested_catalogues.definitions(release))
    return harvested


# --- words of validators ------------------------------------------------------------------------

WORDS = {
    "LambdaValidator | [0,...]": "[0,...] or null",
}
SILENT = {
    "NonEmptyStringWithoutControlChars": "non-empty string without ISO control characters",
    "NonNullValidator": "non-null string",
    "PluginVersionValidator": "plugin version",
    "": "unique transformation aliases",
}
"""Validators without a useful description in some releases; the last is an anonymous class."""

SAME_WORDS = "list of colon-delimited pairs, e.g. <code>foo:bar,abc:xyz</code>"


def valid(key: DefinedKey) -> list[str]:
    """Descriptions of a key's validators, made distinct where Kafka's are ambiguous."""
    return [_words(key, *text.split(" | ", 1)) for text in key["valid"]]


def _words(key: DefinedKey, kind: str, printed: str) -> str:
    if "@" in printed:
        return SILENT[kind]
    if kind == "ValidList" and " empty " in printed:
        options, _, flags = printed.rpartition(" empty ")
        empty, _, null = flags.partition(" null ")
        of = f" of {options}" if options else ""
        least = ", at least one" if "false" in empty else ""
        return f"distinct values{of}{least}{', or null' if 'true' in null else ''}"
    if printed == SAME_WORDS:
        return "casting spec" if key["name"] == "spec" else "rename mappings"
    return WORDS.get(f"{kind} | {printed}", printed)


# --- from answers to rows -----------------------------------------------------------------------


def rows(history: Sequence[_Definition]) -> list[DefinitionRow]:
    """One row per key, from the definitions of some releases, oldest first."""
    return [_row(name, history) for name in _order(history)]


def _order(history: Sequence[_Definition]) -> list[str]:
    """All names, in an order that contains the order of each release."""
    names: list[str] = []
    for _, keys in reversed(history):
        place = 0
        for key in keys:
            if key["name"] in names:
                at = names.index(key["name"])
                assert at >= place, f"{key['name']} has changed its place"
                place = at + 1
            else:
                names.insert(place, key["name"])
                place += 1
    return names


def _row(name: str, history: Sequence[_Definition]) -> DefinitionRow:
    key_history = [(release, _key_named(name, keys)) for release, keys in history]
    present = [(release, key) for release, key in key_history if key is not None]
    now = present[-1][1]
    row = dict(now)
    if present[0] != key_history[0]:
        row["since"] = present[0][0]
    row |= _until(present, key_history)
    before = list(_before(present))
    return row | ({"before": before} if before else {})


def _until(
    present: Sequence[tuple[str, Any]], all_told: Sequence[tuple[str, Any]]
) -> DefinitionRow:
    """First release after the row's last one, as field `until`; {} if the newest has it."""
    place = all_told.index(present[-1]) + 1
    return {"until": all_told[place][0]} if place < len(all_told) else {}


def _before(present: Sequence[tuple[str, DefinedKey]]) -> Iterator[DefinitionRow]:
    """Earlier forms of a key, newest first: each has its differences from the next later form."""
    for (_, older), (release, newer) in reversed(list(pairwise(present))):
        changed = {
            field: older.get(field, DEFAULTS[field])
            for field in DEFAULTS
            if older.get(field, DEFAULTS[field]) != newer.get(field, DEFAULTS[field])
        }
        if changed:
            yield {"until": release} | changed


def _key_named(name: str, keys: Sequence[DefinedKey]) -> DefinedKey | None:
    return next((plain(key) for key in keys if key["name"] == name), None)


DEFAULTS: DefinedKey = {
    "type": None,
    "required": False,
    "default": None,
    "valid": [],
    "importance": "MEDIUM",
    "group": None,
    "order": -1,
    "width": "NONE",
    "display_name": None,
}
"""Default value per field; such a field is not written."""


def plain(key: DefinedKey) -> DefinedKey:
    """A key as a catalogue has it: without the fields that have the value in `DEFAULTS`."""
    normalized = dict(key, valid=valid(key), required=bool(key.get("required")))
    if normalized["display_name"] == normalized["name"]:
        normalized["display_name"] = None
    fields = {field: normalized.get(field) for field in DEFAULTS}
    return {"name": key["name"]} | {
        field: value for field, value in fields.items() if value != DEFAULTS[field]
    }


# --- files --------------------------------------------------------------------------------------


def definitions(answers: _ReleaseAnswers) -> dict[str, list[DefinitionRow]]:
    """Kafka's definitions of all connectors of a kind, and of the clients of connectors."""
    by_name = {"connector": rows(_of(answers, "connector"))}
    for kind in ("source", "sink"):
        by_name[kind] = rows([(release, _own(answers[release], kind)) for release in answers])
    by_name["transformation"] = [dict(row) for row in IMPLIED]
    by_name["mirror"] = rows(_mirrored(answers))
    for client in CLIENTS:
        of_client = rows(_of(answers, client))
        by_name[client] = [_without_words(row) for row in of_client]
    return by_name


def _of(answers: _ReleaseAnswers, name: str) -> list[_Definition]:
    return [(release, harvested[name]) for release, harvested in answers.items()]


def _own(harvested: Mapping[str, Any], kind: str) -> list[DefinedKey]:
    """Keys of a connector type that the definition of all connectors lacks."""
    shared = {key["name"] for key in harvested["connector"]}
    return [key for key in harvested[kind] if key["name"] not in shared]


def _without_words(row: DefinitionRow) -> DefinitionRow:
    """A client override without valid values: overrides are parsed, but not validated."""
    changes = [
        {k: v for k, v in change.items() if k != "valid"} for change in row.get("before", ())
    ]
    kept = [change for change in changes if len(change) > 1]
    rest = {field: value for field, value in row.items() if field not in {"valid", "before"}}
    return rest | ({"before": kept} if kept else {})


def _mirrored(answers: _ReleaseAnswers, name: str | None = None) -> list[_Definition]:
    """Keys of the MirrorMaker connector `name` that another one lacks; without `name`, shared keys.

    Up to 3.3 each of them defined all keys: a key belongs to the connector that kept it later.
    """
    owners = _owners(answers)
    history: list[_Definition] = []
    for release, harvested in answers.items():
        mirrors = {
            plugin["class"]: plugin["config"] for plugin in harvested["plugins"] if _mirrors(plugin)
        }
        if mirrors:
            every = {key["name"] for key in harvested["connector"]}
            keys = [key for key in mirrors[name or min(mirrors)] if key["name"] not in every]
            own = owners.keys() if name is None else {k for k in owners if name in owners[k]}
            history.append((release, [k for k in keys if (k["name"] in own) is (name is not None)]))
    return _in_one_order(history)


def _in_one_order(history: Sequence[_Definition]) -> list[_Definition]:
    """Keys in the order of the newest release; moved keys take their latest place."""
    placed = [history[-1]]
    for release, keys in reversed(history[:-1]):
        later = [key["name"] for key in placed[-1][1]]
        kept = [key for key in keys if key["name"] in later]
        ordered = sorted(kept, key=partial(_place, later))
        gone = [key for key in keys if key["name"] not in later]
        placed.append((release, keys if kept == ordered else [*ordered, *gone]))
    return placed[::-1]


def _place(names: Sequence[str], key: DefinedKey) -> int:
    return names.index(key["name"])


def _mirrors(plugin: DefinitionRow) -> bool:
    return str(plugin["class"]).startswith(MIRRORS)


def _owners(answers: _ReleaseAnswers) -> dict[str, set[str]]:
    """Keys that only some of MirrorMaker's connectors have, each with those connectors."""
    owners: dict[str, set[str]] = {}
    for harvested in answers.values():
        mirrors = {
            plugin["class"]: plugin["config"] for plugin in harvested["plugins"] if _mirrors(plugin)
        }
        having: dict[str, set[str]] = {}
        for name, keys in mirrors.items():
            for key in keys:
                having.setdefault(key["name"], set()).add(name)
        for key, names in having.items():
            if len(names) < len(mirrors):
                owners.setdefault(key, set()).update(names)
    return owners


def plugins(answers: _ReleaseAnswers) -> list[DefinitionRow]:
    """Return the definition of every plugin of Kafka's own."""
    return [_plugin(answers, *class_and_kind) for class_and_kind in sorted(_names(answers))]


def _names(answers: _ReleaseAnswers) -> set[tuple[str, str]]:
    """Class and kind of every plugin; the kind of connectors may change."""
    every_plugin = (plugin for answer in answers.values() for plugin in answer["plugins"])
    return {(plugin["class"], KINDS.get(plugin["among"], "connector")) for plugin in every_plugin}


def _plugin(answers: _ReleaseAnswers, name: str, kind: str) -> DefinitionRow:
    history = [
        (release, _plugin_named(harvested, name, kind)) for release, harvested in answers.items()
    ]
    present = [(release, plugin) for release, plugin in history if plugin is not None]
    row: DefinitionRow = {
        "class": name,
        "type": KINDS.get(present[-1][1]["among"], present[-1][1]["type"]),
    }
    row["version"] = _version(*present[-1])
    mirror = name.startswith(MIRRORS)
    if not mirror and not name.startswith(f"{CONNECT}file."):
        row["bundled"] = True
        if present[0] != history[0] and (kind, present[0][0]) != LISTED_SINCE:
            row["since"] = present[0][0]
        row |= _until(present, history)
    row |= HANDWRITTEN.get(name, {})
    before = [*row.pop("before", []), *_plugin_before(present, kind)]
    row |= {"before": before} if before else {}
    if mirror:
        config = rows(_mirrored(answers, name))
        return row | {"extends": ["connector", "mirror"], "config": config}
    configs = [
        (release, plugin["config"]) for release, plugin in present if plugin["config"] is not None
    ]
    return row | ({"config": rows(configs)} if configs else {})


def _plugin_named(answer: Mapping[str, Any], name: str, kind: str) -> DefinitionRow | None:
    alike = (plugin for plugin in answer["plugins"] if plugin["class"] == name)
    return next(
        (plugin for plugin in alike if KINDS.get(plugin["among"], "connector") == kind), None
    )


def _version(release: str, plugin: DefinitionRow) -> str:
    return WORKERS if plugin["version"] == release else str(plugin["version"])


def _plugin_before(
    present: Sequence[tuple[str, DefinitionRow]], kind: str
) -> Iterator[DefinitionRow]:
    for older, newer in reversed(list(pairwise(present))):
        changed = {}
        if _version(*older) != _version(*newer):
            changed["version"] = _version(*older)
        if kind == "connector" and older[1]["type"] != newer[1]["type"]:
            changed["type"] = older[1]["type"]
        if changed:
            yield {"until": newer[0]} | changed


def documents() -> Mapping[str, str]:
    """Return the texts of the files by name."""
    answers = {release: answer(release) for release in ASKED}
    by_name = definitions(answers)
    return {
        "definitions.json": _text(
            "{", (f'"{name}": {_listed(keys, " ")}' for name, keys in by_name.items()), "}"
        ),
        "plugins.json": _text("[", map(_plugin_text, plugins(answers)), "]"),
    }


def _plugin_text(row: DefinitionRow) -> str:
    """Text of one plugin, with each key on its own line."""
    config = row.pop("config", None)
    text = json.dumps(row, ensure_ascii=False)
    return text if config is None else f'{text[:-1]}, "config": {_listed(config, " ")}}}'


def _listed(keys: Iterable[DefinitionRow], indent: str) -> str:
    lines = ",\n".join(f"{indent} {json.dumps(key, ensure_ascii=False)}" for key in keys)
    return f"[\n{lines}]" if lines else "[]"


def _text(begin: str, pieces: Iterable[str], end: str) -> str:
    return begin + "\n" + ",\n".join(pieces) + "\n" + end + "\n"


def main() -> int:
    """Write the files, or with `--check` only compare them; return the exit code."""
    check = "--check" in sys.argv[1:]
    current = True
    for name, text in documents().items():
        file = FOLDER / name
        current &= file.exists() and file.read_text(encoding="utf-8") == text
        if not check:
            FOLDER.mkdir(exist_ok=True)
            file.write_text(text, encoding="utf-8")
    return int(check and not current)


if __name__ == "__main__":
    sys.exit(main())

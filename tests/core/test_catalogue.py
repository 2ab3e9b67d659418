"""A catalogue of plugins: its valid content, and the plugins that follow from it."""

import json
from typing import Any

import pytest

from controlplane.core.configdef.definition import Definition, check, embedded
from controlplane.core.configdef.key_definition import ConfigKey
from controlplane.core.configdef.validators import check_valid
from controlplane.core.configdef.value_parser import InvalidValue, JavaClass
from controlplane.core.plugins import (
    CatalogueError,
    KafkaPlugins,
    Plugin,
    Plugins,
    parse_catalogue,
    parse_plugins,
)
from controlplane.core.releases.profiles import Profile

NEWEST = Profile.of("4.3.0")


def parsed(*plugins: dict[str, Any], own: KafkaPlugins | None = None) -> Plugins:
    """Parse a catalogue that lists these plugins."""
    return parse_catalogue(json.dumps(plugins).encode(), own)


def keys_of(written: list[dict[str, Any]]) -> tuple[ConfigKey, ...]:
    """The keys of a plugin with this row in a catalogue."""
    (plugin,) = parse_plugins(json.dumps([{"class": "a.B", "config": written}]).encode())
    assert plugin.config is not None
    return plugin.config


# --- names --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["a.b.JdbcSourceConnector", "JdbcSourceConnector", "JdbcSource"])
def test_any_name_of_a_class_gives_its_type(name: str) -> None:
    """The class, its simple name, and the simple name without `Connector` name the type."""
    plugins = parsed({"class": "a.b.JdbcSourceConnector", "type": "source"})
    assert plugins.type_of(name, NEWEST) == "source"


@pytest.mark.parametrize("name", ["Jdbc", "jdbcsource", " JdbcSource", "", None, 1])
def test_other_names_mean_nothing(name: object) -> None:
    """Names are not trimmed, and case matters."""
    plugins = parsed({"class": "a.b.JdbcSourceConnector", "type": "source"})
    assert plugins.type_of(name, NEWEST) == "unknown"
    assert plugins.hook(name, NEWEST) is None


def test_an_alias_of_two_classes_names_neither() -> None:
    """An alias of two classes is none; both then need their full names."""
    plugins = parsed({"class": "a.Jdbc", "type": "source"}, {"class": "b.Jdbc", "type": "sink"})
    assert plugins.type_of("Jdbc", NEWEST) == "unknown"
    assert plugins.type_of("b.Jdbc", NEWEST) == "sink"


def test_two_plugins_with_one_short_name_have_no_alias() -> None:
    """`Value` names neither of two plugins; `Key` names the only plugin with that short name."""
    plugins = parsed(
        {"class": "a.Cast$Key", "type": "transformation"},
        {"class": "a.Mask$Value", "type": "transformation"},
        {"class": "a.Hide$Value", "type": "transformation"},
    ).at(NEWEST)
    assert plugins.full_name("Key") == "a.Cast$Key"
    assert plugins.full_name("Value") == "Value"
    assert plugins.nested("a.Mask") == ("a.Mask$Value",)


def test_a_connector_that_is_neither_source_nor_sink_is_of_unknown_type() -> None:
    """Kafka once shipped such a connector."""
    assert parsed({"class": "a.Mock", "type": "connector"}).type_of("a.Mock", NEWEST) == "unknown"


# --- content of a catalogue ----------------------------------------------------------------------


def test_a_catalogue_accepts_keys_as_connect_lists_them() -> None:
    """A catalogue may contain an answer of `GET /connector-plugins/{plugin}/config`."""
    key_info = {
        "name": "rows",
        "type": "INT",
        "required": False,
        "default_value": "5",
        "importance": "HIGH",
        "documentation": "How many",
        "group": "Reading",
        "order_in_group": 2,
        "width": "SHORT",
        "display_name": "Rows",
        "dependents": ["shape"],
    }
    (newer,) = keys_of([key_info])
    (older,) = keys_of([{**key_info, "order_in_group": None, "order": 2}])
    assert newer == older
    assert (newer.default, newer.order, newer.dependents) == ("5", 2, ("shape",))


def test_a_key_needs_only_name_and_type() -> None:
    """A key needs only a name and a type; `at_least` gives its least value."""
    (key,) = keys_of([{"name": "rows", "type": "INT", "at_least": 1}])
    assert key == ConfigKey(name="rows", type="INT", valid=("[1,...]",), display_name="rows")


@pytest.mark.parametrize(
    ("least", "words"),
    [
        (1_000_000, "[1000000,...]"),
        (1_234_567, "[1234567,...]"),
        (2**53 + 1, "[9007199254740993,...]"),
        (0.5, "[0.5,...]"),
        (1e-5, "[1.0E-5,...]"),
    ],
)
def test_a_least_value_keeps_its_digits(least: float, words: str) -> None:
    """`at_least` gives the words of Kafka's range, which refuses smaller numbers only."""
    (key,) = keys_of([{"name": "rows", "type": "DOUBLE", "at_least": least}])
    assert key.valid == (words,)
    check_valid("rows", key.valid, least)
    with pytest.raises(InvalidValue, match="Value must be at least"):
        check_valid("rows", key.valid, least - 2)


def test_the_catalogue_of_the_recorded_clusters_checks_its_key(histories: Any) -> None:
    """The catalogue of the recorded clusters declares a key with a least value of 1."""
    plugins = parse_catalogue((histories / "catalogue.json").read_bytes())
    plugin = plugins.at(NEWEST).connector("PagesSource")
    assert isinstance(plugin, Plugin)
    assert plugin.config is not None
    pages = next(key for key in plugin.config if key.name == "pages")
    assert (pages.type, pages.default, pages.valid) == ("INT", "3", ("[1,...]",))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"{}", "missing required field `plugins`"),
        (b"1", "Expected `array`"),
        (b'{"plugins": [], "documentation": {"producer": {"acks": 1}}}', "Expected `str`"),
        (b"[1]", "Expected `object`"),
        (b"[{}]", "missing required field `class`"),
        (b"[\xff]", "invalid character"),
        (b'[{"class": "a", "vendor": ' + b"[" * 5_000, "nested too deeply"),
        (b'{"plugins": [], "vendor": ' + b"[" * 5_000, "nested too deeply"),
        (b'[{"class": "a", "config": [{"name": "k", "type": "NUMBER"}]}]', "Invalid enum value"),
        (
            b'[{"class": "a", "config": [{"name": "k", "type": "INT", "valid": ["odd"]}]}]',
            "k: 'odd' does not describe valid values",
        ),
        (
            b'[{"class": "a.Jdbc", "type": "Source"}]',
            "a.Jdbc: the type 'Source' is unknown: use one of source, sink, transformation, ",
        ),
        (
            b'[{"class": "a", "alter_offsets": "perhaps"}]',
            "'perhaps' does not say what the hook does",
        ),
        (
            b'[{"class": "a", "config": [{"name": "k", "type": "STRING", "at_least": 1}]}]',
            "k: '[1,...]' cannot be the valid values of a key of type STRING",
        ),
        (
            b'[{"class": "a", "config": [{"name": "k", "type": "INT", "valid": ["valid regex"]}]}]',
            "k: 'valid regex' cannot be the valid values of a key of type INT",
        ),
        (b'[{"class": "a", "since": "four"}]', "'four' is no release: write it like 3.4"),
        (
            b'[{"class": "a", "config": [{"name": "k", "type": "INT", "until": ""}]}]',
            "'' is no release: write it like 3.4 or 3.4.1 - at `$[0].config[0]`",
        ),
        (
            b'[{"class": "a", "before": [{"until": "3.x", "version": "1"}]}]',
            "'3.x' is no release: write it like 3.4 or 3.4.1 - at `$[0].before[0]`",
        ),
    ],
)
def test_malformed_catalogues_are_refused(text: bytes, message: str) -> None:
    """Each refusal names the place and the error."""
    with pytest.raises(CatalogueError) as refused:
        parse_catalogue(text)
    assert message.lower() in str(refused.value).lower()


def test_unknown_fields_are_ignored() -> None:
    """A catalogue may have fields that this project does not know."""
    assert parsed({"class": "a.B", "type": "sink", "vendor": "c"}).type_of("a.B", NEWEST) == "sink"


# --- Kafka's own --------------------------------------------------------------------------------

OWN = KafkaPlugins(
    (
        Plugin(class_name="k.File", type="source", config=(ConfigKey(name="file", type="STRING"),)),
        Plugin(class_name="k.Json", type="converter", bundled=True, since="2.0.0"),
        Plugin(class_name="k.Json", type="header_converter", bundled=True, until="3.0.0"),
    )
)


def test_kafkas_own_plugins_need_only_a_class() -> None:
    """Kafka's plugin supplies the fields that a catalogue leaves out; given fields win."""
    plugins = parsed({"class": "k.File", "version": "7"}, own=OWN)
    plugin = plugins.at(NEWEST).connector("k.File")
    assert isinstance(plugin, Plugin)
    assert (plugin.type, plugin.version) == ("source", "7")
    assert plugin.config == (ConfigKey(name="file", type="STRING"),)


def test_bundled_plugins_need_no_entry() -> None:
    """Bundled plugins exist in their releases without being listed."""
    older, newer = (parsed(own=OWN).at(Profile.of(release)) for release in ("2.8.2", "3.9.1"))
    assert {plugin.type for plugin in older.named("k.Json")} == {"converter", "header_converter"}
    assert {plugin.type for plugin in newer.named("k.Json")} == {"converter"}


def test_kafkas_connectors_exist_unless_the_catalogue_lists_connectors() -> None:
    """A catalogue that lists a kind of plugins lists all of them, except bundled ones."""
    assert parsed(own=OWN).at(NEWEST).named("k.File")
    assert not parsed({"class": "a.Sink", "type": "sink"}, own=OWN).at(NEWEST).named("k.File")
    assert parsed({"class": "a.Json", "type": "converter"}, own=OWN).at(NEWEST).named("k.File")


def test_a_listed_plugin_is_not_repeated() -> None:
    """A plugin that is listed by its class alone keeps all types that Kafka gives it."""
    plugins = parsed({"class": "k.Json"}, own=OWN).at(Profile.of("2.8.2"))
    assert sorted(plugin.type for plugin in plugins.named("k.Json")) == [
        "converter",
        "header_converter",
    ]


def test_earlier_changes_of_a_row_apply_in_turn() -> None:
    """Each entry of `before` overrides the entries that are listed above it."""
    (key,) = keys_of(
        [
            {
                "name": "k",
                "type": "INT",
                "order": 3,
                "default": "c",
                "since": "2.0.0",
                "until": "4.0.0",
                "before": [
                    {"until": "3.5.0", "order": 2},
                    {"until": "3.0.0", "default": "a", "valid": ["non-empty string"]},
                    {"until": "2.4.0", "order": 1},
                ],
            }
        ]
    )

    def at(release: str) -> tuple[int, str | None, tuple[str, ...]] | None:
        past_key = key.as_of(Profile.of(release))
        return None if past_key is None else (past_key.order, past_key.default, past_key.valid)

    assert at("1.1.1") is None
    assert at("2.3.1") == (1, "a", ("non-empty string",))
    assert at("2.8.2") == (2, "a", ("non-empty string",))
    assert at("3.4.1") == (2, "c", ())
    assert at("3.9.2") == (3, "c", ())
    assert at("kip") is None


# --- definitions --------------------------------------------------------------------------------


def nothing(key: str, text: str) -> JavaClass | None:
    """Return None: the class path is empty."""


def test_dependents_have_errors_of_their_own() -> None:
    """A dependent without its value has one error per parent; an undefined one is not shown."""
    keys = [
        ConfigKey(name="a", type="INT", required=True, dependents=("b", "gone")),
        ConfigKey(name="b", type="INT", required=True),
        ConfigKey(name="c", type="INT", default="1", dependents=("b",)),
    ]
    checked = check(Definition.of(keys), {"a": "x"}, nothing)
    missing = 'Missing required configuration "b" which has no default value.'
    assert checked["a"].errors == ("Invalid value x for configuration a: Not a number of type INT",)
    assert checked["b"].errors == (missing, missing)
    assert checked["gone"].errors == ("gone is referred in the dependents, but not defined.",)
    assert not checked["gone"].visible


def test_a_circle_of_dependents_terminates() -> None:
    """Kafka's own code would not terminate."""
    keys = [
        ConfigKey(name="a", type="INT", default="1", dependents=("b",)),
        ConfigKey(name="b", type="INT", default="1", dependents=("c",)),
        ConfigKey(name="c", type="INT", default="1", dependents=("b",)),
    ]
    assert [
        checked_value.errors for checked_value in check(Definition.of(keys), {}, nothing).values()
    ] == [(), (), ()]


def test_keys_of_an_embedded_definition_get_a_prefix() -> None:
    """Embedded keys get a prefix, a group and an order; validators keep the short names."""
    keys = [
        ConfigKey(name="low", type="INT", importance="LOW", display_name="low"),
        ConfigKey(name="high", type="INT", importance="HIGH", valid=("[1,...]",)),
        ConfigKey(name="needed", type="INT", required=True, importance="LOW"),
        ConfigKey(name="grouped", type="INT", group="G", importance="HIGH"),
    ]
    embedded_keys = embedded(keys, "t.x.", "T: x", 1)
    assert [(key.name, key.order, key.group) for key in embedded_keys] == [
        ("t.x.needed", 1, "T: x"),
        ("t.x.high", 2, "T: x"),
        ("t.x.low", 3, "T: x"),
        ("t.x.grouped", 4, "T: x: G"),
    ]
    checked = check(Definition.of(embedded_keys), {"t.x.needed": "1", "t.x.high": "0"}, nothing)
    assert checked["t.x.high"].errors == (
        "Invalid value 0 for configuration high: Value must be at least 1",
    )

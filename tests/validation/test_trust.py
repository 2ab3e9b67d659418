"""Configs that are accepted on trust because they cannot be checked, and those still refused."""

import json
from typing import Any

import pytest

from controlplane.core.context import Context, DecisionSettings
from controlplane.core.plan import Reason, Rejected
from controlplane.core.plugins import UNCHECKED, parse_catalogue
from controlplane.core.releases.profiles import Profile
from controlplane.core.validation import Validation, ValidationFailure, refusal, validate
from controlplane.plugins import catalogued
from tests.validation.cases import SINK, SOURCE, ConfigBody

RELEASES = ("2.0.0", "2.8.2", "3.4.1", "3.9.1", "4.3.0", "kip")
UNKNOWN: ConfigBody = {"name": "x", "connector.class": "org.example.Jdbc", "url": "jdbc:x"}


def context(
    *listed: dict[str, Any], release: str = "3.9.1", trusting: bool = False, **worker: object
) -> Context:
    """Return the context of a worker that lists these plugins."""
    plugins = catalogued(json.dumps(listed).encode(), trusting=trusting)
    worker_of = DecisionSettings(**worker)  # type: ignore[arg-type]
    return Context(profile=Profile.of(release), worker=worker_of, plugins=plugins)


def text(config: ConfigBody, where: Context) -> str:
    """Return the text with which a config is refused."""
    refused = refusal(config, where)
    assert isinstance(refused, Rejected)
    assert refused.text is not None
    return refused.text


@pytest.mark.parametrize("release", RELEASES)
def test_without_any_plugins_only_the_class_must_be_there(release: str) -> None:
    """Without a catalogue, a config with a known class may have any other keys."""
    where = Context(profile=Profile.of(release), plugins=UNCHECKED)
    assert refusal(UNKNOWN | {"tasks.max": "zero"}, where) is None
    assert text({"name": "x"}, where) == "Connector config {name=x} contains no connector type"


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize(
    "keys", [{}, {"connector.plugin.version": None, "value.converter.plugin.version": None}]
)
def test_a_catalogue_without_kafkas_definitions_validates_the_connectors_own_keys(
    release: str, keys: dict[str, str | None]
) -> None:
    """Without Kafka's definitions, the answer has the connector's keys, and errors for null."""
    plugin = {"class": "a.B", "type": "source", "config": [{"name": "size", "type": "INT"}]}
    where = Context(
        profile=Profile.of(release), plugins=parse_catalogue(json.dumps([plugin]).encode())
    )
    validation = validate({"name": "x", "connector.class": "a.B", "size": "7", **keys}, where)
    assert isinstance(validation, Validation)
    nulls = keys if where.profile.refuses_nulls else {}
    assert {shown.value.name for shown in validation.configs} == {"size", *nulls}
    assert validation.error_count == len(nulls)


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("listed", [(), ({"class": "a.B", "type": "sink"},)])
def test_an_unknown_connector_class_is_refused_unless_it_is_trusted(
    release: str, listed: tuple[dict[str, str], ...]
) -> None:
    """Connect's own keys are checked even if the class is trusted."""
    message = (
        "Failed to find any class that implements Connector and which name matches org.example"
    )
    assert message in text(UNKNOWN, context(*listed, release=release))
    trusting = context(*listed, release=release, trusting=True)
    assert refusal(UNKNOWN, trusting) is None
    assert "Value must be at least 1" in text(UNKNOWN | {"tasks.max": "0"}, trusting)
    assert "transforms.t.type" in text(UNKNOWN | {"transforms": "t"}, trusting)


def test_an_unknown_class_is_a_failure_up_to_4_0_and_an_invalid_config_later() -> None:
    """The error lists the available connectors, as a worker's does."""
    for release, reason in (("3.9.1", Reason.FAILED), ("4.0.2", Reason.FAILED)):
        refused = refusal(UNKNOWN, context({"class": "a.B", "type": "sink"}, release=release))
        assert refused is not None
        assert refused.reason is reason
    for release in ("4.1.1", "kip"):
        refused = refusal(UNKNOWN, context({"class": "a.B", "type": "sink"}, release=release))
        assert refused is not None
        assert refused.reason is Reason.INVALID
        assert refused.text == (
            "Failed to find any class that implements Connector and which name matches "
            "org.example.Jdbc, available connectors are: PluginDesc{klass=class a.B, name='a.B', "
            "version='undefined', encodedVersion=undefined, type=sink, typeName='sink', "
            "location='classpath'}"
        )


def test_a_name_may_mean_two_connectors() -> None:
    """An ambiguous alias makes the worker ask for the full class name."""
    where = context({"class": "a.Jdbc", "type": "sink"}, {"class": "b.Jdbc", "type": "source"})
    assert text(UNKNOWN | {"connector.class": "Jdbc"}, where).startswith(
        "More than one connector matches alias Jdbc. Please use full package and class name "
        "instead. Classes found: PluginDesc{klass=class a.Jdbc, "
    )


@pytest.mark.parametrize(
    "key",
    ["key.converter", "header.converter", "transforms.t.type", "predicates.t.type"],
)
def test_an_unknown_plugin_class_is_refused_unless_it_is_trusted(key: str) -> None:
    """Kafka's own plugins are always known, and refused in the place of another type."""
    listed, _, rest = key.partition(".t.")
    config = SOURCE | {key: "org.example.Own"} | ({listed: "t"} if rest else {})
    assert "Class org.example.Own could not be found." in text(config, context())
    trusting = context(trusting=True)
    assert refusal(config, trusting) is None
    wrong = config | {key: "org.apache.kafka.connect.file.FileStreamSourceConnector"}
    assert "does not implement the" in text(wrong, context())
    assert "does not implement the" in text(wrong, trusting)


def test_a_connector_without_definition_may_be_configured_with_anything() -> None:
    """A catalogue may declare a class without its definition."""
    where = context({"class": "org.example.Jdbc", "type": "source"})
    assert refusal(UNKNOWN, where) is None
    assert "tasks.max" in text(UNKNOWN | {"tasks.max": "-1"}, where)


def test_references_to_a_provider_are_accepted() -> None:
    """A reference to a provider that the worker lacks stays text."""
    listed = {"class": "org.apache.kafka.connect.file.FileStreamSourceConnector"}
    config = SOURCE | {"tasks.max": "${file:/etc/x:tasks}"}
    assert refusal(config, context(listed, config_providers=("file",))) is None
    assert text(config, context(listed, config_providers=("vault",))).splitlines()[1] == (
        "Invalid value ${file:/etc/x:tasks} for configuration tasks.max: Not a number of type INT"
    )


@pytest.mark.parametrize("release", ["2.8.2", "3.4.1", "3.9.1", "4.3.0", "kip"])
@pytest.mark.parametrize(
    "provided",
    [
        {"consumer.override.max.poll.records": "${file:/etc/x:records}"},
        {"transforms": "${file:/etc/x:aliases}", "transforms.a.type": "org.example.A"},
        {"transforms": "a", "transforms.a.type": "${file:/etc/x:class}"},
        {"predicates": "${file:/etc/x:aliases}"},
    ],
)
def test_references_are_accepted_in_every_part(provided: ConfigBody, release: str) -> None:
    """The value of a client override, an alias list or an aliased class is unknown as well."""
    where = context(release=release, config_providers=("file",), override_policy="All")
    assert refusal(SINK | provided, where) is None


def test_a_password_with_a_reference_is_hidden() -> None:
    """A worker hides the whole value, which may be secret beside the reference."""
    own_key = {"name": "db.password", "type": "PASSWORD"}
    plugin: dict[str, Any] = {"class": "org.example.Jdbc", "type": "sink", "config": [own_key]}
    secret = "a-${file:/etc/x:b}"
    config = UNKNOWN | {
        "topics": "t",
        "db.password": secret,
        "consumer.override.sasl.jaas.config": secret,
    }
    answer = validate(config, context(plugin, config_providers=("file",), override_policy="All"))
    assert isinstance(answer, Validation)
    values = {info.value.name: info.value.value for info in answer.configs}
    assert values["db.password"] == "[hidden]"
    assert values["consumer.override.sasl.jaas.config"] == "[hidden]"


def test_a_reference_in_an_override_still_needs_the_policys_consent() -> None:
    """The policy decides by the key, which is known."""
    config = SINK | {"consumer.override.max.poll.records": "${file:/etc/x:records}"}
    where = context(config_providers=("file",), override_policy="None")
    assert "The 'None' policy does not allow" in text(config, where)


def test_a_null_under_a_plugins_own_key_passes_and_fails_later() -> None:
    """In a release, a null under a plugin's own key passes; our profile refuses it."""
    listed = {"class": "org.apache.kafka.connect.file.FileStreamSourceConnector"}
    config = SOURCE | {"topic": None}
    assert refusal(config, context(listed)) is None
    assert "Null value can not be supplied" in text(config, context(listed, release="kip"))
    before = context(listed, release="3.1.2")
    assert refusal(SOURCE | {"unknown": None}, before) is None


@pytest.mark.parametrize(
    ("policy", "release", "refused"),
    [
        (None, "3.9.1", ()),
        (None, "2.8.2", ("acks", "sasl.mechanism")),
        ("None", "3.9.1", ("acks", "sasl.mechanism")),
        ("Principal", "3.9.1", ("acks",)),
        ("All", "2.8.2", ()),
        (None, "2.2.2", ()),
    ],
)
def test_overrides_are_checked_by_the_policy(
    policy: str | None, release: str, refused: tuple[str, ...]
) -> None:
    """Overrides pass or fail by the policy of the worker, or without one."""
    listed = {"class": "org.apache.kafka.connect.file.FileStreamSourceConnector"}
    where = context(listed, release=release, override_policy=policy)
    result = validate(
        SOURCE | {"producer.override.acks": "all", "producer.override.sasl.mechanism": "PLAIN"},
        where,
    )
    assert not isinstance(result, ValidationFailure)
    shown = policy or "None"
    assert sorted(result.errors) == [
        f"The '{shown}' policy does not allow '{name}' to be overridden in the connector "
        "configuration."
        for name in refused
    ]


def test_a_sink_may_not_read_in_the_workers_group() -> None:
    """The sink's name or its consumer override determines the group."""
    listed = {"class": "org.apache.kafka.connect.file.FileStreamSinkConnector"}
    where = context(listed, group_id="connect-orders")
    assert "Consumer group for sink connector named orders conflicts with Connect" in text(
        SINK | {"name": "orders"}, where
    )
    overridden = SINK | {"name": "orders", "consumer.override.group.id": "other"}
    assert refusal(overridden, where) is None


def test_exactly_once_needs_worker_and_connector() -> None:
    """The connector may support it, not support it, or not say."""
    listed = [
        {"class": "a.Yes", "type": "source", "exactly_once": "supported"},
        {"class": "a.No", "type": "source", "exactly_once": "unsupported"},
        {"class": "a.Silent", "type": "source"},
    ]
    where = context(*listed, exactly_once_source=True)
    config: ConfigBody = {"name": "x", "exactly.once.support": "required"}
    assert refusal(config | {"connector.class": "a.Yes"}, where) is None
    assert "does not support exactly-once semantics with the provided" in text(
        config | {"connector.class": "a.No"}, where
    )
    assert "does not implement the API" in text(config | {"connector.class": "a.Silent"}, where)
    without = context(*listed)
    assert "This worker does not have exactly-once" in text(
        config | {"connector.class": "a.Yes"}, without
    )


def test_transaction_boundaries_need_the_connector() -> None:
    """A connector may define transaction boundaries if it declares that it supports them."""
    able = {"class": "a.Able", "type": "source", "transaction_boundaries": "supported"}
    where = context(able, {"class": "a.Other", "type": "source"})
    config: ConfigBody = {"name": "x", "transaction.boundary": "connector"}
    assert refusal(config | {"connector.class": "a.Able"}, where) is None
    assert "does not support connector-defined" in text(
        config | {"connector.class": "a.Other"}, where
    )

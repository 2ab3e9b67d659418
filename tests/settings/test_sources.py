"""Sources of settings: precedence of flags, environment and file, and spellings of names."""

import sys
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

import msgspec
import pytest

from controlplane.settings import Configuration, ValueSource, WorkerSettings
from controlplane.settings.access import AccessSettings, kafka_security
from controlplane.settings.configuration import keys
from controlplane.settings.environment import environment_values, key_of
from controlplane.settings.errors import BadValue, SettingsError
from controlplane.settings.known_settings import GUESSES, unknown
from controlplane.settings.providers import GROUP, Providers
from controlplane.settings.sources import file_values, flag_values
from tests.settings.vault_provider import Vault


def configuration(
    *, flags: Mapping[str, str] = {}, variables: Mapping[str, str] = {}, file: Path | None = None
) -> Configuration:
    """Configuration from flags, environment and file, as a command builds it."""
    return Configuration(
        flag_values((f"--{key}", key, value) for key, value in flags.items()),
        *environment_values(variables),
        file_values(file) if file else {},
        variables=variables,
    )


def value_and_source(config: Configuration, key: str) -> tuple[object, str]:
    """Value of a setting, and its source."""
    (setting,) = (setting for setting in config.effective(WorkerSettings) if setting.key == key)
    return setting.value, str(setting.source)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Worker's file that sets `rest.port` twice."""
    path = tmp_path / "worker.properties"
    path.write_text("# a worker\ngroup.id=of-file\nrest.port=1\nrest.port=2\n", "ascii")
    return path


OURS = {"CONTROLPLANE_GROUP_ID": "ours"}
CONNECT = {"CONNECT_GROUP_ID": "connect"}
DEBEZIUM = {"CONFIG_STORAGE_TOPIC": "c", "OFFSET_STORAGE_TOPIC": "o", "GROUP_ID": "debezium"}


def test_the_stronger_source_wins(file: Path) -> None:
    """Precedence: flag, our variable, the images' variables, file, default."""
    every = {**CONNECT, **DEBEZIUM, **OURS}
    flag = {"group.id": "flag"}
    assert [
        value_and_source(configuration(flags=flag, variables=every, file=file), "group.id"),
        value_and_source(configuration(variables=every, file=file), "group.id"),
        value_and_source(configuration(variables={**CONNECT, **DEBEZIUM}, file=file), "group.id"),
        value_and_source(configuration(variables=CONNECT, file=file), "group.id"),
        value_and_source(configuration(file=file), "group.id"),
        value_and_source(configuration(), "group.id"),
    ] == [
        ("flag", "--group.id"),
        ("ours", "CONTROLPLANE_GROUP_ID"),
        ("debezium", "GROUP_ID"),
        ("connect", "CONNECT_GROUP_ID"),
        ("of-file", f"{file}:2"),
        ("connect-cluster", "default"),
    ]


def test_the_last_line_of_a_key_wins(file: Path) -> None:
    """The last line wins, as in Java, and is named as the source."""
    assert value_and_source(configuration(file=file), "rest.port") == (2, f"{file}:4")


def test_empty_variables_are_ignored(file: Path) -> None:
    """An empty variable counts as unset: images pass such variables on."""
    for blank in ("", " \t"):
        config = configuration(variables={"CONTROLPLANE_GROUP_ID": blank}, file=file)
        assert value_and_source(config, "group.id") == ("of-file", f"{file}:2")


EMPTY = "is empty: use a text, or leave it out"


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("group.id=", f"group.id {EMPTY}"),
        ("config.storage.topic = \t", f"config.storage.topic {EMPTY}"),
        ("key.converter", f"key.converter {EMPTY}"),
        ("rest.port:", "rest.port is empty: use a whole number from 0 to 65535, or leave it out"),
        ("topic.tracking.enable=", "topic.tracking.enable is empty: use true or false, or leave"),
        ("listeners=", "listeners is empty: use a list with commas, or leave it out"),
    ],
)
def test_an_empty_value_in_a_file_is_refused(tmp_path: Path, line: str, says: str) -> None:
    """The error names the line; an empty value stops a worker of Kafka, too."""
    path = tmp_path / "worker.properties"
    path.write_text(f"# settings\n{line}\n", "ascii")
    with pytest.raises(SettingsError) as refused:
        configuration(file=path).settings(WorkerSettings)
    assert str(refused.value).startswith(f"{path}:2: {says}")


def test_an_empty_value_under_a_stronger_source_does_not_matter(tmp_path: Path) -> None:
    """A variable's value hides the error of the file's empty value."""
    path = tmp_path / "worker.properties"
    path.write_text("group.id=\n", "ascii")
    config = configuration(variables={"CONTROLPLANE_GROUP_ID": "fleet"}, file=path)
    assert value_and_source(config, "group.id") == ("fleet", "CONTROLPLANE_GROUP_ID")


def test_an_empty_value_in_a_file_from_a_variable_is_refused() -> None:
    """No image writes such a line, so its empty value is an error, too."""
    with pytest.raises(SettingsError, match=r"KAFKA_CONNECT_CONFIGURATION:1: group\.id is empty"):
        configuration(variables={"KAFKA_CONNECT_CONFIGURATION": "group.id="}).settings(
            WorkerSettings
        )


def test_empty_lists_and_texts_are_valid(tmp_path: Path) -> None:
    """Empty lists and texts that may be empty are valid."""
    path = tmp_path / "worker.properties"
    path.write_text("plugin.path=\nconfig.providers=\nadmin.listeners=\n", "ascii")
    assert [*configuration(file=path).empty(WorkerSettings)] == []
    assert configuration(file=path).settings(WorkerSettings).admin_listeners == ()


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("GROUP_ID", "group.id"),
        ("CONFIG_PROVIDERS_MY__FILE_CLASS", "config.providers.my_file.class"),
        ("CONFIG_PROVIDERS_MY___FILE_CLASS", "config.providers.my-file.class"),
    ],
)
def test_underscores_of_variables_become_dots_and_dashes(name: str, key: str) -> None:
    """One underscore means a dot, two an underscore, three a dash."""
    assert key_of(name) == key


def test_names_without_a_prefix_are_those_of_debeziums_image() -> None:
    """Names without a prefix count only if two topics are named, as Debezium's image requires."""
    assert configuration(variables={"GROUP_ID": "1000", "REST_PORT": "1"}).values == {}
    config = configuration(variables={**DEBEZIUM, "SHUTDOWN_TIMEOUT": "7"})
    assert value_and_source(config, "task.shutdown.graceful.timeout.ms") == (7, "SHUTDOWN_TIMEOUT")
    assert config.settings(WorkerSettings).topics.config == "c"


def test_a_variable_may_hold_a_file() -> None:
    """Older images of Strimzi pass the brokers and the other settings in two variables."""
    variables = {
        "KAFKA_CONNECT_BOOTSTRAP_SERVERS": "one:9092",
        "KAFKA_CONNECT_CONFIGURATION": "group.id=strimzi\nconfig.storage.topic=a-configs\n",
    }
    config = configuration(variables=variables)
    assert value_and_source(config, "bootstrap.servers") == (
        "one:9092",
        "KAFKA_CONNECT_BOOTSTRAP_SERVERS",
    )
    assert value_and_source(config, "config.storage.topic") == (
        "a-configs",
        "KAFKA_CONNECT_CONFIGURATION:2",
    )
    with pytest.raises(SettingsError, match=r"^KAFKA_CONNECT_CONFIGURATION:1: "):
        configuration(variables={"KAFKA_CONNECT_CONFIGURATION": "a=\\u1"})


def test_other_variables_give_no_settings() -> None:
    """Our own switches and the images' logging variables give no settings."""
    names = ("CONTROLPLANE_DEBUG", "CONTROLPLANE_WORKER_PROPERTIES", "CONNECT_LOG4J_ROOT_LOGLEVEL")
    assert configuration(variables=dict.fromkeys(names, "x")).values == {}


@pytest.mark.parametrize(
    ("variables", "sentence"),
    [
        (
            {"CONNECT_REST_PORT": "many"},
            "CONNECT_REST_PORT: rest.port is 'many': use a whole number from 0 to 65535",
        ),
        (
            {"CONTROLPLANE_TOPIC_TRACKING_ENABLE": "1"},
            "CONTROLPLANE_TOPIC_TRACKING_ENABLE: topic.tracking.enable is '1': use true or false",
        ),
    ],
)
def test_a_bad_value_is_reported_with_its_source(variables: dict[str, str], sentence: str) -> None:
    """The error has key, value, source and allowed values."""
    with pytest.raises(SettingsError) as refused:
        configuration(variables=variables).settings(WorkerSettings)
    assert str(refused.value) == sentence


def test_only_flags_and_own_variables_count_as_set_here(file: Path) -> None:
    """Only flags and our own variables count, not a worker's file or its image's variables."""
    config = configuration(
        flags={"rest.port": "3"},
        variables={**CONNECT, "CONTROLPLANE_REST_HOST_NAME": "x"},
        file=file,
    )
    ours = config.only(lambda source: source.is_ours)
    assert {key: value.text for key, value in ours.values.items()} == {
        "rest.port": "3",
        "rest.host.name": "x",
    }


# --- limits ---------------------------------------------------------------------------------


class Limits(msgspec.Struct, frozen=True):
    """Limits in the form of the program's parts."""

    patience_ms: int = 30_000
    width: int = 3


def test_limits_are_set_like_settings(file: Path) -> None:
    """Keys of limits begin with the name of their part; a limit of 0 is refused."""
    file.write_text("part.patience.ms=7\nwidth=9\n", "ascii")
    config = configuration(variables={"CONTROLPLANE_PART_WIDTH": "0"}, file=file)
    with pytest.raises(SettingsError, match=r"part\.width is '0': use a whole number from 1$"):
        config.settings(Limits, "part.")
    assert configuration(file=file).settings(Limits, "part.") == Limits(patience_ms=7)


class NestedLimits(msgspec.Struct, frozen=True):
    """Limits that include those of a part."""

    limits: Limits = Limits()
    depth_bytes: int = 5


def test_a_table_may_contain_another(file: Path) -> None:
    """Keys of the inner table begin with the key of its field and keep their sources."""
    file.write_text("whole.limits.width=9\nwhole.depth.bytes=6\n", "ascii")
    config = configuration(file=file)
    assert config.settings(NestedLimits, "whole.") == NestedLimits(Limits(width=9), 6)
    effective = [
        (setting.key, setting.value, setting.source.kind)
        for setting in config.effective(NestedLimits, "whole.")
    ]
    assert effective == [
        ("whole.limits.patience.ms", 30_000, "default"),
        ("whole.limits.width", 9, "file"),
        ("whole.depth.bytes", 6, "file"),
    ]
    assert [*keys(NestedLimits, "whole.")] == [key for key, *_ in effective]
    file.write_text("whole.limits.width=wide\n", "ascii")
    with pytest.raises(SettingsError, match=r":1: whole\.limits\.width is 'wide'"):
        configuration(file=file).settings(NestedLimits, "whole.")


# --- config providers -----------------------------------------------------------------------

KAFKAS = "org.apache.kafka.common.config.provider"
PROVIDERS = [
    "config.providers=file, dir,env,vault,none",
    f"config.providers.file.class={KAFKAS}.FileConfigProvider",
    f"config.providers.dir.class={KAFKAS}.DirectoryConfigProvider",
    f"config.providers.env.class={KAFKAS}.EnvVarConfigProvider",
    "config.providers.vault.class=org.example.Vault",
]


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("${env:CLUSTER}", "of-env"),
        ("${env::CLUSTER}", "of-env"),
        ("a-${env:CLUSTER}-${file:FOLDER/more:id}", "a-of-env-größe"),
        ("${dir:FOLDER:name}", "of-dir"),
        ("$${env:CLUSTER}", "$of-env"),
        ("${file:FOLDER/more:two}", "${env:CLUSTER}"),  # a value is not resolved again
        ("${other:/x:y}", "${other:/x:y}"),
        ("${CLUSTER}", "${CLUSTER}"),
        ("${env:CLUSTER", "${env:CLUSTER"),
    ],
)
def test_references_to_providers_are_resolved(file: Path, written: str, value: str) -> None:
    """References to Kafka's own three providers are resolved; other text stays."""
    (file.parent / "more").write_text("id=größe\ntwo=${env:CLUSTER}\n", "utf-8")
    (file.parent / "name").write_text("of-dir\n", "utf-8")
    written = written.replace("FOLDER", str(file.parent))
    file.write_text("\n".join([*PROVIDERS, f"group.id={written}"]), "utf-8")
    config = configuration(variables={"CLUSTER": "of-env"}, file=file)
    assert config.settings(WorkerSettings).group_id == value


@pytest.mark.parametrize(
    ("setting", "remedy"),
    [
        ("offset.flush.interval.ms=${env:PASSWORD}", "use a whole number from 0"),
        ("config.storage.topic=${env:PASSWORD}/", "use 1 to 249 letters"),
        ("sasl.mechanism=${env:PASSWORD}", "use PLAIN, SCRAM-SHA-256"),
    ],
)
def test_an_error_does_not_show_the_value_of_a_provider(
    file: Path, setting: str, remedy: str
) -> None:
    """Values of config providers are secret, so the error shows the reference."""
    file.write_text("\n".join([*PROVIDERS, "security.protocol=SASL_SSL", setting]), "utf-8")
    config = configuration(variables={"PASSWORD": "hunter2"}, file=file)
    with pytest.raises(SettingsError) as refused:  # noqa: PT012 - one of the two fails
        config.settings(WorkerSettings)
        config.make(AccessSettings, kafka_security)
    sentence = str(refused.value)
    assert "hunter2" not in sentence
    key, _, reference = setting.partition("=")
    assert f": {key} is {reference}, and the provider's value is invalid: {remedy}" in sentence


def test_an_error_shows_a_value_without_a_provider(file: Path) -> None:
    """The error shows a reference to an unknown provider as the text that it is."""
    file.write_text("\n".join([*PROVIDERS, "rest.port=${other:x}"]), "utf-8")
    with pytest.raises(SettingsError, match=r"rest\.port is '\$\{other:x\}': use a whole number"):
        configuration(file=file).settings(WorkerSettings)


def test_a_value_of_a_directory_keeps_its_line_breaks(file: Path) -> None:
    """`DirectoryConfigProvider` returns a file unchanged, carriage returns included."""
    (file.parent / "pem").write_bytes(b"a\r\nb\rc\nd")
    file.write_text("\n".join(PROVIDERS), "utf-8")
    resolved = configuration(file=file).providers.of_connector("k", f"${{dir:{file.parent}:pem}}")
    assert resolved.text == "a\r\nb\rc\nd"


def test_a_removed_working_directory_hinders_only_relative_paths(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a removed directory, absolute paths are read; a relative one is refused in a sentence."""
    (file.parent / "more").write_text("id=7\n")
    file.write_text("\n".join([*PROVIDERS, f"group.id=${{file:{file.parent}/more:id}}"]), "utf-8")
    (gone := file.parent / "gone").mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert configuration(file=file).settings(WorkerSettings).group_id == "7"
    file.write_text("\n".join([*PROVIDERS, "group.id=${file:more:id}"]), "utf-8")
    with pytest.raises(SettingsError, match="the provider cannot give this value"):
        configuration(file=file).settings(WorkerSettings)


@pytest.mark.parametrize(
    ("written", "sentence"),
    [
        ("${env:NOPE}", r"group\.id is \$\{env:NOPE\}, and the provider cannot give this value"),
        ("${file:/no/such:id}", "the provider cannot give this value"),
        ("${dir:/no:such}", "the provider cannot give this value"),
        ("${vault:secret:id}", r":6: group\.id comes from the config provider vault, which"),
        ("${none:x}", "which cannot run here: use a copy of the file"),
    ],
)
def test_unresolvable_references_are_refused(file: Path, written: str, sentence: str) -> None:
    """An unknown provider and a missing value are refused."""
    file.write_text("\n".join([*PROVIDERS, f"group.id={written}"]), "utf-8")
    with pytest.raises(SettingsError, match=sentence):
        configuration(file=file).settings(WorkerSettings)


def test_a_package_can_declare_a_provider(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A provider gets its `param.*` as written; worker settings may refer to it, too."""
    point = metadata.EntryPoint("vault", "tests.settings.vault_provider:Vault", GROUP)
    monkeypatch.setattr(metadata, "entry_points", lambda **_: [point])
    file.write_text(
        "config.providers=vault\n"
        "config.providers.vault.class=tests.settings.vault_provider.Vault\n"
        "config.providers.vault.param.id=${env:CLUSTER}\n"
        "group.id=${vault:of-:id}\n",
        "ascii",
    )
    config = configuration(file=file)
    assert config.settings(WorkerSettings).group_id == "of-${env:CLUSTER}"
    resolved = config.providers.of_connector("password", "x${vault:a:id}")
    assert resolved.text == "xa${env:CLUSTER}"
    assert {*resolved.secrets} == {"a${env:CLUSTER}"}
    assert resolved.ttls_ms == {"vault:a": 60_000}


@pytest.mark.parametrize("method", ["get", "configure"])
def test_a_provider_that_exits_is_named(monkeypatch: pytest.MonkeyPatch, method: str) -> None:
    """`sys.exit` in a provider is a failure of the provider, not of the process or connector."""
    point = metadata.EntryPoint("vault", "tests.settings.vault_provider:Vault", GROUP)
    monkeypatch.setattr(metadata, "entry_points", lambda **_: [point])
    monkeypatch.setattr(Vault, method, lambda *_: sys.exit(3))
    providers = Providers({"vault": "tests.settings.vault_provider.Vault"}, {})
    if method == "configure":
        with pytest.raises(SettingsError, match=r"cannot be loaded: SystemExit.*3"):
            providers.load()
        return
    providers.load()
    with pytest.raises(
        BadValue, match=r"is \$\{vault:a:id\}: the config provider vault failed: SystemExit.*3"
    ):
        providers.of_connector("password", "${vault:a:id}")


@pytest.mark.parametrize(
    ("returned", "sentence"),
    [
        (5, "get returned int, not a ProvidedValue or None"),
        ("s3cret", "get returned str, not a ProvidedValue or None"),
        (("s3cret",), "get returned tuple, not a ProvidedValue or None"),
        (("s3cret", "1"), r"get returned \(str, str\), not a text and milliseconds"),
    ],
)
def test_a_provider_that_returns_no_pair_is_named(
    monkeypatch: pytest.MonkeyPatch, returned: Any, sentence: str
) -> None:
    """The error names the provider and the type that it returned, not the value."""
    point = metadata.EntryPoint("vault", "tests.settings.vault_provider:Vault", GROUP)
    monkeypatch.setattr(metadata, "entry_points", lambda **_: [point])
    monkeypatch.setattr(Vault, "get", lambda *_: returned)
    providers = Providers({"vault": "tests.settings.vault_provider.Vault"}, {})
    providers.load()
    with pytest.raises(
        BadValue, match=f"the config provider vault failed: .*{sentence}"
    ) as failure:
        providers.of_connector("password", "${vault:a:id}")
    assert "s3cret" not in str(failure.value)


def test_a_dollar_is_just_text_without_providers(file: Path) -> None:
    """Without configured config providers, `${…}` has no special meaning."""
    file.write_text("group.id=${file:a:b}", "ascii")
    assert configuration(file=file).settings(WorkerSettings).group_id == "${file:a:b}"


# --- keys that mean nothing -----------------------------------------------------------------

COUNTING = ("group.id", "key.converter", "config.storage.topic", "offset.storage.topic")


@pytest.mark.parametrize(
    ("key", "meant"),
    [
        ("group.ids", "group.id"),
        ("groupid", "group.id"),
        ("config.storage.topc", "config.storage.topic"),
        ("offsets.storage.topic", "offset.storage.topic"),
        ("key.convertor", "key.converter"),
        ("fnord", None),
    ],
)
def test_unknown_keys_are_reported(file: Path, key: str, meant: str | None) -> None:
    """An unknown key is reported, with the known key that it resembles, if any."""
    file.write_text(f"group.id=x\n{key}=1\n", "ascii")
    (slip,) = unknown(configuration(file=file).values, COUNTING)
    assert (slip.key, slip.meant, slip.source) == (key, meant, ValueSource("file", str(file), 2))


@pytest.mark.parametrize(
    "key",
    [
        "key.converter.plugin.version",
        "value.converter.schema.registry.url",
        "producer.max.block.ms",
        "config.storage.min.insync.replicas",
        "config.providers.vault.param.uri",
        "sasl.oauthbearer.token.endpoint.url",
    ],
)
def test_keys_of_kafka_cause_no_warning(file: Path, key: str) -> None:
    """Keys of Kafka cause no warning."""
    file.write_text(f"{key}=1\n", "ascii")
    assert unknown(configuration(file=file).values, COUNTING) == []


def test_variables_are_reported_only_if_they_resemble_a_setting(file: Path) -> None:
    """A variable that begins with `CONNECT_` is reported only if it resembles a setting."""
    values = configuration(variables={"CONNECT_TO": "x", "CONNECT_GROUP_IDS": "x"}).values
    assert [slip.key for slip in unknown(values, COUNTING)] == ["group.ids"]


def test_a_file_of_unknown_keys_is_reported_quickly(file: Path) -> None:
    """A file with unknown keys only is reported quickly, without a suggestion per key."""
    file.write_text("".join(f"group.ids.{number}=1\n" for number in range(50_000)), "ascii")
    slips = unknown(configuration(file=file).values, ["group.ids"])
    assert len(slips) == 50_000
    assert sum(slip.meant is not None for slip in slips) == GUESSES

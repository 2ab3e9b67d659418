"""`controlplane config` shows effective settings and sources; every command reads them so."""

from pathlib import Path
from typing import Any

import pytest

from tests.cli.command_calls import CommandResult, call, refusal, shell

SAMPLE = """\
# A worker of the fleet
bootstrap.servers=one:9092,two:9092
group.id=fleet
key.converter=org.apache.kafka.connect.json.JsonConverter
consumer.max.poll.records=100
config.storage.topic=fleet-configs
config.storage.min.insync.replicas=1
worker.sync.timeout.ms=10000
security.protocol=SASL_PLAINTEXT
sasl.mechanism=PLAIN
sasl.jaas.config=org.example.Login required username="me" password="hunter2";
producer.sasl.jaas.config=org.example.Login required username="me" password="hunter3";
"""


@pytest.fixture
def worker(tmp_path: Path) -> Path:
    """Worker's file with the sample settings."""
    path = tmp_path / "worker.properties"
    path.write_text(SAMPLE, "ascii")
    return path


WIDE = 400
"""Columns: nothing is wrapped, not even the path of a temporary file."""


def show(*arguments: object) -> CommandResult:
    """Run the command on a wide terminal."""
    return call("config", *arguments, columns=WIDE)


def lines(result: CommandResult) -> dict[str, list[str]]:
    """Rows of the table, by key."""
    assert result.code == 0, result
    return {line.split()[0]: line.split()[1:] for line in result.out.splitlines() if line}


def rows(result: CommandResult, part: str) -> dict[str, dict[str, Any]]:
    """Rows of a part of the document, by key."""
    return {row["key"]: row for row in result.json[part]}


def test_each_value_has_its_source(worker: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sources are flags, the environment, a file with its line, and defaults."""
    monkeypatch.setenv("CONNECT_STATUS_STORAGE_TOPIC", "of-env")
    monkeypatch.setenv("CONTROLPLANE_GROUP_ID", "ours")
    flags = ["--offsets-topic", "of-flag", "--override", "topic.tracking.enable=false"]
    shown = lines(show("--worker", worker, *flags))
    assert shown["config.storage.topic"] == ["fleet-configs", f"{worker}:6"]
    assert shown["offset.storage.topic"] == ["of-flag", "--offsets-topic"]
    assert shown["status.storage.topic"] == ["of-env", "CONNECT_STATUS_STORAGE_TOPIC"]
    assert shown["command.storage.topic"] == ["connect-commands", "default"]
    assert shown["group.id"] == ["ours", "CONTROLPLANE_GROUP_ID"]
    assert shown["topic.tracking.enable"] == ["false", "--override"]


@pytest.mark.parametrize(
    ("flag", "key"),
    [
        ("--config-topic", "config.storage.topic"),
        ("--offsets-topic", "offset.storage.topic"),
        ("--status-topic", "status.storage.topic"),
        ("--commands-topic", "command.storage.topic"),
    ],
)
def test_a_flag_of_its_own_beats_a_general_one(flag: str, key: str) -> None:
    """The flag of a topic wins over an earlier and a later `--override`."""
    flags = [flag, "one"], ["--override", f"{key}=other"]
    for first, last in (flags, flags[::-1]):
        assert lines(show(*first, *last))[key] == ["one", flag]


def test_settings_without_effect_are_shown_on_request(worker: Path) -> None:
    """`--all` adds Kafka's keys without effect (with reasons), all limits, and unset keys."""
    few, all_of_them = (
        show("--worker", worker),
        show("--worker", worker, "--all"),
    )
    unused = "consumer.max.poll.records"
    omitted_keys = {unused, "worker.sync.timeout.ms", "reader.patience.ms", "listeners"}
    assert not omitted_keys & lines(few).keys()
    assert few.err == ""
    shown = lines(all_of_them)
    assert omitted_keys < shown.keys()
    assert (
        " ".join(shown["worker.sync.timeout.ms"])
        == f"10000 {worker}:8 no worker calls another one here"
    )
    assert "it configures the clients of connectors that run on Kafka" in " ".join(shown[unused])
    assert shown["listeners"] == ["-", "default"]


def test_given_limits_are_shown() -> None:
    """`config` shows settings that were given; others need `--all`."""
    shown = lines(show("--override", "follower.gather.ms=3"))
    assert shown["follower.gather.ms"] == ["3", "--override"]
    assert "follower.retry.last.ms" not in shown


def test_limits_of_every_part_can_be_set(monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment and flags set limits of every part; a misspelt key is reported."""
    monkeypatch.setenv("CONTROLPLANE_UPKEEP_SNAPSHOTS_KEPT", "9")
    overrides = ["controller.commands.waiting=7", "upkeep.retention.superseded.ms=1000"]
    slip = "upkeep.snapshot.kept=8"
    result = show(*(part for override in (*overrides, slip) for part in ("--override", override)))
    shown = lines(result)
    assert shown["upkeep.snapshots.kept"] == ["9", "CONTROLPLANE_UPKEEP_SNAPSHOTS_KEPT"]
    assert shown["controller.commands.waiting"] == ["7", "--override"]
    assert shown["upkeep.retention.superseded.ms"] == ["1000", "--override"]
    assert result.err == (
        "Warning: --override: upkeep.snapshot.kept is no setting of a worker: "
        "did you mean upkeep.snapshots.kept?\n"
    )


def test_json_has_typed_values_and_all_settings(worker: Path) -> None:
    """JSON has values with types, sources in parts, and all settings."""
    result = call("config", "--worker", worker, "-o", "json")
    assert rows(result, "worker")["group.id"] == {
        "key": "group.id",
        "value": "fleet",
        "source": {"kind": "file", "name": str(worker), "line": 3},
        "without_effect": None,
    }
    assert rows(result, "worker")["listeners"]["value"] == []
    assert rows(result, "worker")["topic.tracking.enable"]["value"] is True
    assert rows(result, "limits")["reader.fetch.wait.ms"]["value"] == 500
    assert rows(result, "limits")["reader.fetch.wait.ms"]["source"] == {"kind": "default"}
    assert rows(result, "unused").keys() == {
        "consumer.max.poll.records",
        "config.storage.min.insync.replicas",
        "producer.sasl.jaas.config",
    }


@pytest.mark.parametrize("how", [[], ["--all"], ["-o", "json"]])
def test_secrets_are_hidden(worker: Path, how: list[str]) -> None:
    """Values of secrets are hidden, used or not; a reference to a secret is shown."""
    with worker.open("a", encoding="ascii") as file:
        file.write("ssl.key.password=hunter4\nfnord.password=hunter5\n")
        file.write("config.providers=env\nssl.keystore.key=${env:HUNTER}\n")
        file.write("ssl.keystore.certificate.chain=x\n")
        file.write(
            "config.providers.env.class="
            "org.apache.kafka.common.config.provider.EnvVarConfigProvider\n"
        )
    result = shell("config", "--worker", worker, *how, HUNTER="hunter6")
    assert result.code == 0
    assert "hunter" not in result.out + result.err
    assert "[hidden]" in result.out
    assert "${env:HUNTER}" in result.out


@pytest.mark.parametrize("how", [[], ["-o", "json"]])
def test_a_secret_is_hidden_whatever_its_key(how: list[str]) -> None:
    """The login `connect.user` has a password, though its key names none."""
    result = show("--override", "connect.user=bob:hunter4", *how)
    assert result.code == 0
    assert "hunter" not in result.out + result.err
    assert "[hidden]" in result.out


def test_unknown_keys_are_warned_of(worker: Path) -> None:
    """Every command that reads the file warns, and suggests a similar key."""
    with worker.open("a", encoding="ascii") as file:
        file.write("offset.storage.topc=x\n" + "".join(f"fnord.{n}=1\n" for n in range(9)))
    result = call("config", "--worker", worker, "-o", "json")
    slip = f"{worker}:13: offset.storage.topc is no setting of a worker"
    assert f"Warning: {slip}: did you mean offset.storage.topic?\n" in result.err
    assert f"Warning: {worker}:22: fnord.8 is no setting of a worker\n" in result.err
    assert [key["meant"] for key in result.json["unknown"]] == ["offset.storage.topic", *[None] * 9]
    others = call("inspect", "nowhere.jsonl", "--worker", worker).err.splitlines()
    assert others[0] == f"Warning: {slip}: did you mean offset.storage.topic?"
    assert others[5] == "Warning: … and 5 more; `controlplane config` names them all"
    assert "nowhere.jsonl does not exist" in others[6]


@pytest.mark.parametrize(
    ("override", "sentence"),
    [
        ("topic.tracking.enable=yes", "topic.tracking.enable is 'yes': use true or false"),
        ("offset.flush.interval.ms=1m", "is '1m': use a whole number from 0"),
        ("reader.patience.ms=0", "reader.patience.ms is '0': use a whole number from 1"),
        ("sqlite.synchronous=OFF", "sqlite.synchronous is 'OFF': use FULL, NORMAL"),
        ("sasl.mechanism=GSSAPI", "sasl.mechanism is 'GSSAPI': use PLAIN, SCRAM-SHA-256"),
    ],
)
def test_bad_values_are_refused_with_their_source(
    worker: Path, override: str, sentence: str
) -> None:
    """The error has key, value, source and allowed values; no table is printed."""
    told_how = refusal(call("config", "--worker", worker, "--override", override))
    assert told_how.startswith("--override: ")
    assert sentence in told_how


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (
            ("--config-topic", "x", "--override", "offset.storage.topic=x"),
            "--override: offset.storage.topic is x, and so is config.storage.topic: give each",
        ),
        (
            ("--status-topic", "connect-configs"),
            "--status-topic: status.storage.topic is connect-configs, and so is config.storage",
        ),
        (
            ("--config-topic", "connect-commands"),
            "--config-topic: command.storage.topic is connect-commands, and so is config.storage",
        ),
    ],
)
def test_one_topic_for_two_purposes_is_refused(options: tuple[str, ...], sentence: str) -> None:
    """Every command refuses one topic name for two kinds of records."""
    for command in (["config"], ["inspect", "x.jsonl"]):
        assert refusal(call(*command, *options)).startswith(sentence)


def test_a_bad_value_in_a_file_is_reported_with_its_line(worker: Path) -> None:
    """Every command that needs the setting names file and line."""
    with worker.open("a", encoding="ascii") as file:
        file.write("exactly.once.source.support=perhaps\n")
    for command in (["config"], ["inspect", "x.jsonl"], ["serve", "x.db"], ["import", "x", "y.db"]):
        sentence = refusal(call(*command, "--worker", worker))
        assert sentence.startswith(f"{worker}:13: exactly.once.source.support is 'perhaps': use ")


@pytest.mark.parametrize("override", ["group.id", "=fleet", ""])
def test_an_override_needs_key_and_value(override: str) -> None:
    """An override without a key or value is refused."""
    assert "write it like group.id=fleet" in refusal(call("config", "--override", override))


def test_the_file_may_be_named_by_the_environment(worker: Path) -> None:
    """The variable and the older name of the flag both work."""
    for result in (
        shell("config", CONTROLPLANE_WORKER_PROPERTIES=str(worker), COLUMNS=str(WIDE)),
        show("--worker-properties", worker),
    ):
        assert lines(result)["group.id"] == ["fleet", f"{worker}:3"]


def test_settings_that_some_commands_cannot_use_are_warned_of() -> None:
    """TLS without a key concerns only listeners; an unknown policy only decisions."""
    result = call(
        *("config", "--override", "listeners=https://:8443"),
        *("--override", "connector.client.config.override.policy=org.example.Mine"),
    )
    assert result.code == 0
    assert result.err.count("Warning: --override: ") == 2
    assert "ssl.keystore.location is not set" in result.err


def test_access_settings_matter_only_to_connections(worker: Path, histories: Path) -> None:
    """A key store only for Java does not matter for a dump; clusters and `config` refuse it."""
    with worker.open("a", encoding="ascii") as file:
        file.write("security.protocol=SSL\nssl.truststore.location=/etc/trust\n")
        file.write("ssl.truststore.type=BCFKS\n")
        file.write("config.storage.topic=connect-configs\n")
    log = histories / "life-3.9.log.jsonl"
    assert call("inspect", log, "--worker", worker).code == 0
    for command in (["inspect", "kafka://127.0.0.1:1"], ["config"]):
        assert f"{worker}:15: ssl.truststore.type is 'BCFKS'" in refusal(
            call(*command, "--worker", worker)
        )


def test_topics_of_the_environment_must_exist(histories: Path) -> None:
    """A missing topic from the environment is refused: the log may be of another cluster."""
    log = histories / "life-3.9.log.jsonl"
    result = shell("inspect", log, CONNECT_STATUS_STORAGE_TOPIC="elsewhere")
    assert "there is no topic elsewhere" in refusal(result)
    assert shell("inspect", log, CONNECT_STATUS_STORAGE_TOPIC="connect-status").code == 0


def test_trust_in_unknown_classes_is_a_setting_that_is_off() -> None:
    """Trust in unknown classes is off by default; `config` shows it and the catalogue's file."""
    shown = lines(show("--all"))
    assert shown["plugins.trust.unknown"][:2] == ["false", "default"]
    trusting = lines(show("--override", "plugins.trust.unknown=true"))
    assert trusting["plugins.trust.unknown"] == ["true", "--override"]
    assert "plugins.catalogue" in shown


def test_paths_of_files_with_secrets_are_shown(worker: Path) -> None:
    """The path of a file with secrets is shown; its content is not."""
    files = {"auth.password.file": "/etc/passwords", "auth.token.file": "/etc/tokens"}
    overrides = [word for key, path in files.items() for word in ("--override", f"{key}={path}")]
    secret = ("--override", "ssl.keystore.password=hunter2")
    shown = lines(show("--worker-properties", worker, *overrides, *secret))
    assert {key: shown[key][0] for key in files} == files
    assert shown["ssl.keystore.password"][0] == "[hidden]"


def test_an_empty_value_is_reported(tmp_path: Path) -> None:
    """An empty value counts as unset, with a warning."""
    file = tmp_path / "worker.properties"
    file.write_text("rest.host.name=\nssl.keystore.location=\nplugin.path=\n", "ascii")
    warnings = [
        f"Warning: {file}:{line}: {key} is empty and counts as not set"
        for line, key in ((1, "rest.host.name"), (2, "ssl.keystore.location"))
    ]
    log = "tests/histories/life-3.9.log.jsonl"
    for words in (("config",), ("inspect", log)):
        result = call(*words, "--worker-properties", file)
        assert (result.code, result.err.splitlines()) == (0, warnings)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--config-topic", ""), "--config-topic: config.storage.topic is empty"),
        (("--override", "group.id="), "--override: group.id is empty"),
        (("--override", "status.storage.partitions= "), "status.storage.partitions is empty"),
    ],
)
def test_an_empty_flag_is_refused(words: tuple[str, ...], says: str) -> None:
    """An empty flag, as of an unset shell variable, does not mean the default."""
    assert says in refusal(call("config", *words))


def test_an_empty_setting_for_credentials_is_refused() -> None:
    """An empty setting is refused: the service would run without authentication."""
    for key in ("auth.token.file", "auth.password.file", "auth.proxy.header"):
        result = call("serve", "nowhere.db", "--port", "0", "--override", f"{key}=")
        assert f"--override: {key} is empty: use a text, or leave it out" in refusal(result)

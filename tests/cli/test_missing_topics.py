"""Topics that a log lacks: refused if a user named them, otherwise reported."""

import json
from pathlib import Path

import pytest

from controlplane.core.state import Topics
from controlplane.logs.log import LogNotUsable
from controlplane.plane import ControlPlane, Settings
from tests.cli.command_calls import call, refusal, shell

CONFIGS = (
    '{"topic":"connect-configs","partition":0,"offset":5,"tstype":"create","ts":1700000000000,'
    '"broker":1,"key":"connector-c","payload":"{\\"properties\\":{\\"name\\":\\"c\\"}}"}\n'
)
NO_STATUS = "this log has no connect-status: statuses are unknown"
NO_OFFSETS = "this log has no connect-offsets: source offsets are unknown"


@pytest.fixture
def configs(tmp_path: Path) -> Path:
    """Dump of the config topic alone, as by `kcat -t`."""
    (tmp_path / "configs.json").write_text(CONFIGS, "utf-8")
    return tmp_path / "configs.json"


@pytest.mark.parametrize("embed", [False, True])
def test_gaps_left_by_a_missing_topic_are_reported(
    configs: Path, tmp_path: Path, *, embed: bool
) -> None:
    """Reports go to standard error beside a table, and to `problems` in JSON."""
    log = tmp_path / "log.db" if embed else configs
    if embed:
        assert call("import", configs, log).code == 0
    result = call("inspect", log)
    assert result.code == 0
    assert result.err.splitlines() == [f"{log}: {NO_OFFSETS}", f"{log}: {NO_STATUS}"]
    assert call("inspect", log, "-o", "json").json["problems"] == [NO_OFFSETS, NO_STATUS]


def test_a_whole_log_lacks_nothing(histories: Path) -> None:
    """A whole log has no remark; the command topic may be missing."""
    result = call("inspect", histories / "life-3.9.log.jsonl", "-o", "json")
    assert (result.err, result.json["problems"]) == ("", [])


@pytest.mark.parametrize("flag", ["config", "offset", "status", "command"])
def test_a_topic_named_by_a_flag_must_exist(histories: Path, flag: str) -> None:
    """The sentence lists the existing topics, and the options that name them."""
    result = call("inspect", histories / "life-3.9.log.jsonl", f"--{flag}-topic", "nope")
    sentence = refusal(result)
    assert "there is no topic nope (found: connect-configs, connect-offsets" in sentence
    assert "--config-topic" in sentence


def test_a_topic_named_by_a_workers_file_must_exist(histories: Path, tmp_path: Path) -> None:
    """A worker's file of another cluster is refused, instead of an empty view."""
    (tmp_path / "worker.properties").write_text("status.storage.topic=elsewhere\n", "utf-8")
    log, file = histories / "life-3.9.log.jsonl", tmp_path / "worker.properties"
    result = call("inspect", log, "--worker-properties", file)
    assert "there is no topic elsewhere" in refusal(result)


def test_a_workers_file_may_repeat_the_usual_names(configs: Path, tmp_path: Path) -> None:
    """A dump of one topic is readable with a worker's file that repeats default names."""
    lines = ["config.storage.topic=connect-configs", "status.storage.topic=connect-status"]
    (tmp_path / "worker.properties").write_text("\n".join(lines), "utf-8")
    result = call("inspect", configs, "--worker-properties", tmp_path / "worker.properties")
    assert result.code == 0
    assert NO_STATUS in result.err


def test_a_dump_of_one_topic_can_be_imported(tmp_path: Path) -> None:
    """The import succeeds: other files can supply the other topics later."""
    line = json.dumps({**json.loads(CONFIGS), "topic": "connect-offsets"})
    (tmp_path / "offsets.json").write_text(line + "\n", "utf-8")
    assert call("import", tmp_path / "offsets.json", tmp_path / "log.db").code == 0


SPLIT = (
    "the config topic connect-configs has 2 partitions and must have one. Workers from 2.5.1 on "
    "refuse to start with it, older ones read the partitions in any order. This program reads them "
    "in order of time"
)


@pytest.mark.parametrize("embed", [False, True])
def test_a_config_topic_with_two_partitions_is_reported(
    configs: Path, tmp_path: Path, *, embed: bool
) -> None:
    """The topic is read, as by old workers, from a dump or an embedded log."""
    second = CONFIGS.replace('"partition":0', '"partition":1').replace("connector-c", "connector-d")
    configs.write_text(CONFIGS + second, "utf-8")
    log = tmp_path / "log.db" if embed else configs
    if embed:
        assert call("import", configs, log).code == 0
    result = call("inspect", log)
    assert result.code == 0
    assert f"{log}: {SPLIT}" in result.err.splitlines()
    document = call("inspect", log, "-o", "json").json
    assert SPLIT in document["problems"]
    assert [row["name"] for row in document["connectors"]] == ["c", "d"]


FOUND = "found: connect-configs, connect-offsets, connect-status"


@pytest.fixture
def life(histories: Path, tmp_path: Path) -> Path:
    """Imported log of a cluster, which has no command topic."""
    assert call("import", histories / "life-3.9.log.jsonl", tmp_path / "life.db").code == 0
    return tmp_path / "life.db"


def topics_in(log: Path) -> list[str]:
    """Topics of an embedded log."""
    return sorted(call("inspect", log, "-o", "json").json["read_up_to"])


@pytest.mark.parametrize("kind", ["config", "offsets", "status"])
def test_serve_makes_no_topic_of_a_misspelt_name(life: Path, kind: str) -> None:
    """`serve` refuses a misspelt topic, instead of a cluster without connectors."""
    before = topics_in(life)
    sentence = refusal(shell("serve", life, "--port", "0", f"--{kind}-topic", "nope"))
    assert sentence.startswith(
        f"there is no topic nope ({FOUND}): give the name of the {kind} topic"
    )
    assert sentence.endswith(
        "(topics are named by --config-topic and the like, by --worker-properties, or by the file "
        "in CONTROLPLANE_WORKER_PROPERTIES)"
    )
    assert topics_in(life) == before


@pytest.mark.parametrize("kind", ["CONFIG", "OFFSET", "STATUS"])
def test_a_change_makes_no_topic_of_a_misspelt_name(life: Path, kind: str) -> None:
    """A change refuses a misspelt topic from the environment."""
    before = topics_in(life)
    names = {f"CONTROLPLANE_{kind}_STORAGE_TOPIC": "nope"}
    result = call("stop", "orders", "-c", life, environment=names)
    assert f"there is no topic nope ({FOUND})" in refusal(result)
    assert topics_in(life) == before


def test_a_log_with_other_names_is_not_taken_for_a_new_one(configs: Path, tmp_path: Path) -> None:
    """A log with unusual topic names is refused if no setting names them."""
    configs.write_text(CONFIGS.replace("connect-configs", "my-configs"), "utf-8")
    flags = ("--config-topic", "my-configs")
    assert call("import", configs, tmp_path / "my.db", *flags).code == 0
    for words in (
        ("serve", tmp_path / "my.db", "--port", "0"),
        ("stop", "c", "-c", tmp_path / "my.db"),
    ):
        sentence = refusal(shell(*words))
        assert "there is no topic connect-configs (found: my-configs)" in sentence


async def test_a_plane_makes_no_topic_of_a_misspelt_name(life: Path) -> None:
    """`ControlPlane.open` refuses missing named topics, too."""
    for topics in (Topics(config="nope"), Topics(offsets="nope"), Topics(status="nope")):
        with pytest.raises(LogNotUsable, match=f"there is no topic nope .{FOUND}"):
            async with ControlPlane.open(str(life), Settings(topics=topics)):
                pass


async def test_a_new_log_may_have_any_names(tmp_path: Path) -> None:
    """A log that is missing or has no records cannot lose a topic."""
    for name in ("first", "second"):
        topics = Topics(*(f"{name}-{field}" for field in Topics.__struct_fields__))
        async with ControlPlane.open(f"{tmp_path}/new.db", Settings(topics=topics)) as plane:
            assert {*await plane.log.topics()} >= {topics.config, topics.commands}


async def test_the_commands_may_have_a_topic_of_any_name(life: Path) -> None:
    """An imported log lacks the command topic; once it exists, a second name is refused."""
    async with ControlPlane.open(str(life), Settings(topics=Topics(commands="my-commands"))):
        pass
    async with ControlPlane.open(str(life)):
        pass
    with pytest.raises(LogNotUsable, match="there is no topic nope"):
        async with ControlPlane.open(str(life), Settings(topics=Topics(commands="nope"))):
            pass

"""Topics that a log does not have: refused where they were named, else told."""

import json
from pathlib import Path

import pytest

from tests.cli.calling import call, refusal

CONFIGS = (
    '{"topic":"connect-configs","partition":0,"offset":5,"tstype":"create","ts":1700000000000,'
    '"broker":1,"key":"connector-c","payload":"{\\"properties\\":{\\"name\\":\\"c\\"}}"}\n'
)
NO_STATUS = "this log has no connect-status: statuses are unknown"
NO_OFFSETS = "this log has no connect-offsets: source offsets are unknown"


@pytest.fixture
def configs(tmp_path: Path) -> Path:
    """A dump of the config topic alone, as `kcat -t` makes it."""
    (tmp_path / "configs.json").write_text(CONFIGS, "utf-8")
    return tmp_path / "configs.json"


@pytest.mark.parametrize("embed", [False, True])
def test_what_a_missing_topic_leaves_unknown_is_said(
    configs: Path, tmp_path: Path, *, embed: bool
) -> None:
    """On standard error beside a table, among the problems in JSON; of dumps and embedded logs."""
    log = tmp_path / "log.db" if embed else configs
    if embed:
        assert call("import", configs, log).code == 0
    said = call("inspect", log)
    assert said.code == 0
    assert said.err.splitlines() == [f"{log}: {NO_OFFSETS}", f"{log}: {NO_STATUS}"]
    assert call("inspect", log, "-o", "json").json["problems"] == [NO_OFFSETS, NO_STATUS]


def test_a_whole_log_lacks_nothing(histories: Path) -> None:
    """No remark where there is nothing to remark; our own command topic need not be there."""
    said = call("inspect", histories / "life-3.9.log.jsonl", "-o", "json")
    assert (said.err, said.json["problems"]) == ("", [])


@pytest.mark.parametrize("flag", ["config", "offset", "status", "command"])
def test_a_topic_named_by_a_flag_must_be_there(histories: Path, flag: str) -> None:
    """The sentence says which there are, and how they are named."""
    said = call("inspect", histories / "life-3.9.log.jsonl", f"--{flag}-topic", "nope")
    sentence = refusal(said)
    assert "there is no topic nope (found: connect-configs, connect-offsets" in sentence
    assert "--config-topic" in sentence


def test_a_topic_named_by_a_workers_file_must_be_there(histories: Path, tmp_path: Path) -> None:
    """A worker of another cluster is not silently shown nothing."""
    (tmp_path / "worker.properties").write_text("status.storage.topic=elsewhere\n", "utf-8")
    log, file = histories / "life-3.9.log.jsonl", tmp_path / "worker.properties"
    said = call("inspect", log, "--worker-properties", file)
    assert "there is no topic elsewhere" in refusal(said)


def test_a_workers_file_may_repeat_the_usual_names(configs: Path, tmp_path: Path) -> None:
    """Every worker's file names all three; a dump of one topic can still be looked at."""
    lines = ["config.storage.topic=connect-configs", "status.storage.topic=connect-status"]
    (tmp_path / "worker.properties").write_text("\n".join(lines), "utf-8")
    said = call("inspect", configs, "--worker-properties", tmp_path / "worker.properties")
    assert said.code == 0
    assert NO_STATUS in said.err


def test_a_dump_of_one_topic_can_be_imported(tmp_path: Path) -> None:
    """The rest may come from other files."""
    line = json.dumps({**json.loads(CONFIGS), "topic": "connect-offsets"})
    (tmp_path / "offsets.json").write_text(line + "\n", "utf-8")
    assert call("import", tmp_path / "offsets.json", tmp_path / "log.db").code == 0


SPLIT = (
    "the config topic connect-configs has 2 partitions and must have one: workers from 2.5.1 on "
    "refuse to start with it, older ones take the partitions in any order, here they are taken by "
    "time"
)


@pytest.mark.parametrize("embed", [False, True])
def test_a_config_topic_with_two_partitions_is_told(
    configs: Path, tmp_path: Path, *, embed: bool
) -> None:
    """Old workers live with it, so it is read; be it a dump or an embedded log."""
    second = CONFIGS.replace('"partition":0', '"partition":1').replace("connector-c", "connector-d")
    configs.write_text(CONFIGS + second, "utf-8")
    log = tmp_path / "log.db" if embed else configs
    if embed:
        assert call("import", configs, log).code == 0
    said = call("inspect", log)
    assert said.code == 0
    assert f"{log}: {SPLIT}" in said.err.splitlines()
    found = call("inspect", log, "-o", "json").json
    assert SPLIT in found["problems"]
    assert [row["name"] for row in found["connectors"]] == ["c", "d"]

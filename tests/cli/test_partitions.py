"""Partition counts of topics: from a dump or an option; otherwise `plan` reports an assumption."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from controlplane import ControlPlane
from controlplane.core.topics.partitioner import partition_of
from tests.cli.command_calls import call, refusal, topics
from tests.rest.served_history import client_of

PARTITIONS = 5
KEY = next(
    key
    for key in (f'["orders",{{"filename":"/{n}"}}]' for n in range(100))
    if partition_of(key.encode(), PARTITIONS) == 2 and partition_of(key.encode(), 3) != 2
)
"""Offset in partition 2 of five; with three partitions its partition differs."""

CONFIG = '{"properties":{"connector.class":"FileStreamSource","topic":"t","file":"/f"}}'
RECORDS = [
    ("connect-configs", 0, "connector-orders", CONFIG),
    ("connect-configs", 0, "commit-orders", '{"tasks":0}'),
    ("connect-configs", 0, "target-state-orders", '{"state":"PAUSED","state.v2":"STOPPED"}'),
    ("connect-offsets", 2, KEY, '{"position":1}'),
    ("connect-status", 0, "status-task-x-0", None),
]
RESET = ("DELETE", "/connectors/orders/offsets")


@pytest.fixture
def history(tmp_path: Path) -> Path:
    """Recorded log whose last partitions are empty; its story has their numbers."""
    ends = {"connect-configs": [3], "connect-offsets": [0, 0, 1, 0, 0], "connect-status": [1, 0, 0]}
    lines: list[dict[str, Any]] = [{"history": "few", "end": ends, "records": len(RECORDS)}]
    offsets: dict[tuple[str, int], int] = {}
    for at, (topic, partition, key, value) in enumerate(RECORDS):
        offset = offsets.get((topic, partition), 0)
        offsets[topic, partition] = offset + 1
        place = {"topic": topic, "partition": partition, "offset": offset, "timestamp": at}
        lines.append({**place, "key": key, "value": value})
    return write_json_lines(tmp_path / "few.log.jsonl", lines)


@pytest.fixture
def dump(tmp_path: Path) -> Path:
    """Output of `kcat -J` for the log, without empty partitions."""
    lines = [
        {"topic": topic, "partition": partition, "offset": at, "ts": 1 + at, "tstype": "create"}
        | {"broker": 1, "key": key, "payload": value}
        for at, (topic, partition, key, value) in enumerate(RECORDS)
    ]
    return write_json_lines(tmp_path / "few.kcat", lines)


def write_json_lines(path: Path, lines: list[dict[str, Any]]) -> Path:
    """File with one document per line."""
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines), "utf-8")
    return path


def planned(log: Path, *options: str) -> Any:
    """Plan a reset with 3.9 and return the JSON document."""
    result = call("plan", log, "--profile", "3.9", *options, *RESET, "-o", "json")
    assert result.code == 0, result
    return result.json


def partition(document: Any) -> int:
    """Partition of the only tombstone."""
    (record,) = [
        record
        for step in document["steps"]
        for record in step["records"]
        if record["topic"] == "connect-offsets"
    ]
    return int(record["partition"])


def test_a_plan_on_a_history_names_the_partition_in_which_the_old_value_lies(history: Path) -> None:
    """A history has partition counts, so the plan assumes none."""
    document = planned(history)
    assert partition(document) == 2
    assert not [sentence for sentence in document["assumed"] if "partition" in sentence]


def test_a_copy_of_a_history_has_the_partitions_of_the_cluster(
    history: Path, tmp_path: Path
) -> None:
    """Writes to the served copy go to the partition of the old value."""
    assert call("import", history, tmp_path / "copy.db").code == 0
    assert topics(tmp_path / "copy.db") == {
        "connect-configs": 1,
        "connect-offsets": PARTITIONS,
        "connect-status": 3,
    }
    assert partition(planned(tmp_path / "copy.db")) == 2


def test_a_plan_on_a_dump_says_that_the_partition_is_assumed(dump: Path) -> None:
    """The assumption names the option that replaces it; with the option, nothing is assumed."""
    result = call("plan", dump, "--profile", "3.9", *RESET)
    assert (
        "assumed: connect-offsets has 3 partitions, as many as the dump shows; "
        "--partitions offsets=N sets the number"
    ) in " ".join(result.out.split())
    document = planned(dump, "--partitions", "offsets=5")
    assert partition(document) == 2
    assert not [sentence for sentence in document["assumed"] if "partition" in sentence]


def test_partitions_option_sets_the_partitions_of_a_copied_dump(dump: Path, tmp_path: Path) -> None:
    """The option accepts full topic names, too."""
    partitions = ("--partitions", "connect-offsets=5", "--partitions", "status=3")
    assert call("import", dump, tmp_path / "copy.db", *partitions).code == 0
    assert topics(tmp_path / "copy.db")["connect-offsets"] == PARTITIONS
    assert topics(tmp_path / "copy.db")["connect-status"] == 3


def test_a_plan_on_a_copy_of_a_dump_says_that_the_partition_is_assumed(
    dump: Path, tmp_path: Path
) -> None:
    """The copy keeps the assumption until an import gives the number; so does its copy."""
    copy, second = tmp_path / "copy.db", tmp_path / "second.db"
    call("import", dump, copy)
    call("import", copy, second)
    for log in (copy, second):
        result = call("plan", log, "--profile", "3.9", *RESET)
        assert (
            "assumed: connect-offsets has 3 partitions, as many as the dump shows; "
            "`import` of that dump with --partitions offsets=N sets the number"
        ) in " ".join(result.out.split())
    call("import", dump, copy, "--partitions", "offsets=5")
    document = planned(copy)
    assert partition(document) == 2
    assert not [sentence for sentence in document["assumed"] if "partition" in sentence]


async def test_a_dry_run_on_a_served_copy_of_a_dump_says_that_the_partition_is_assumed(
    dump: Path, tmp_path: Path
) -> None:
    """The dry run reports the assumption, as `plan` does."""
    copy = tmp_path / "copy.db"
    await asyncio.to_thread(call, "import", dump, copy)
    (assumption,) = [
        sentence for sentence in await assumed_by_dry_run(copy) if "partition" in sentence
    ]
    assert assumption == (
        "connect-offsets has 3 partitions, as many as the dump shows; "
        "`import` of that dump with --partitions offsets=N sets the number"
    )
    await asyncio.to_thread(call, "import", dump, copy, "--partitions", "offsets=5")
    assert not [sentence for sentence in await assumed_by_dry_run(copy) if "partition" in sentence]


async def assumed_by_dry_run(log: Path) -> list[str]:
    """Assumptions of a dry run of a reset by a control plane of this log."""
    async with ControlPlane.open(f"sqlite:///{log}") as plane, client_of(plane.app) as client:
        answer = await client.delete("/connectors/orders/offsets", params={"dry_run": "true"})
    assumed: list[str] = answer.json()["assumed"]
    return assumed


def test_a_copy_of_a_history_assumes_nothing_whatever_else_is_imported(
    history: Path, tmp_path: Path
) -> None:
    """The history gives the number, also if the same records come without it, before or after."""
    bare = tmp_path / "bare.log.jsonl"
    bare.write_text("".join(history.read_text("utf-8").splitlines(keepends=True)[1:]), "utf-8")
    for number, sources in enumerate(([history, bare], [bare, history])):
        copy = tmp_path / f"{number}.db"
        for source in sources:
            assert call("import", source, copy).code == 0
        document = planned(copy)
        assert partition(document) == 2
        assert not [sentence for sentence in document["assumed"] if "partition" in sentence]


@pytest.mark.parametrize(
    ("counts", "sentence"),
    [
        ("offsets=2", "has 3 partitions of connect-offsets: offsets=2 is too few"),
        ("offsett=5", "has no topic offsett"),
        ("offsets", "is not of the form TOPIC=N"),
        ("offsets=-1", "is not of the form TOPIC=N"),
    ],
)
def test_impossible_partition_counts_are_refused(dump: Path, counts: str, sentence: str) -> None:
    """One sentence names the remedy."""
    result = call("plan", dump, *RESET, "--partitions", counts, columns=200)
    assert result.code == 2
    assert sentence in " ".join(result.err.split())


def test_partitions_of_a_log_that_knows_them_are_refused(history: Path, tmp_path: Path) -> None:
    """An embedded log knows its partitions: `--partitions` for it is refused."""
    call("import", history, tmp_path / "copy.db")
    message = refusal(call("plan", tmp_path / "copy.db", *RESET, "--partitions", "offsets=5"))
    assert "is no dump: leave out --partitions" in message

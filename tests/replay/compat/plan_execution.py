"""Execution of a plan line by line, as in a shell, on a log in a file.

`controlplane` is the real program: its dry run gives the records, and this module writes them. The
module imitates printf, kcat and Kafka's scripts; the filters (grep, perl) are the real programs. It
also does the work of the absent workers: it commits tasks anew and reports restarts.
"""

import json
import shlex
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from controlplane.core.entry import Entry
from controlplane.core.fold import fold
from controlplane.core.order import in_order
from controlplane.core.records import Target
from controlplane.core.releases.profiles import Profile
from controlplane.core.state import ClusterState, Topics
from replay.compat import ReleaseChange
from replay.compat.preparation import PreparationStep, StepTime
from tests.cli.command_calls import call

TOPICS = Topics()


class AppendedRecord(NamedTuple):
    """Record that a step appends to a topic."""

    topic: str
    key: str
    value: str | None
    partition: int = 0


class PlanTarget:
    """Log, and the workers that read it."""

    def __init__(self, log: Iterable[Entry], file: Path) -> None:
        self.log = list(log)
        self._file = file
        self.created: list[str] = []
        """Topics that commands of the plan have created."""
        config = fold(in_order(self.log), Profile.of("kip"), exactly_once=True).config
        self._made = {name: config.tasks.get(name, {}) for name in config.connectors}
        """Task configs that each connector generates from its config."""

    def carry_out(self, plan: Iterable[PreparationStep], roll: ReleaseChange) -> list[str]:
        """Execute every command of a plan; return the comments, which are for people."""
        for_people = []
        for step in plan:
            if step.command.startswith("#"):
                for_people.append(step.command)
                continue
            release = roll.goal if step.when is StepTime.AFTER else roll.start
            for line in pipelines(step.command):
                self._run(line, release)
        return for_people

    def _run(self, programs: list[list[str]], release: Profile) -> None:
        first, *later_programs = programs
        if first[0] == "controlplane":
            self._ask(first[1:], release)
        elif first[0] == "printf":
            self._append(_printed(first, later_programs[0]))
        elif first[0] == "kcat":
            self._copy(first, later_programs)
        elif first[0] == "kafka-topics.sh":
            self.created.append(_option(first, "--topic"))
        else:
            assert first[0] == "kafka-broker-api-versions.sh", programs

    # --- controlplane ---------------------------------------------------------------------------

    def _ask(self, words: list[str], release: Profile) -> None:
        """Run `controlplane` as a dry run and append its records.

        A stop fails if the release has no such request.
        """
        self._write()
        if words[0] == "get":
            result = call(*words[: words.index(">")], environment=self._environment)
            assert result.code == 0, (words, result)
            return
        result = call(*words, "--dry-run", "-o", "json", environment=self._environment)
        assert result.code == 0, (words, result)
        (answer,) = result.json
        if words[0] == "stop":
            assert release.stops
        for step in answer["plan"]["steps"]:
            self._append(
                AppendedRecord(
                    record["topic"], record["key"], record["value"], record["partition"] or 0
                )
                for record in step["records"]
            )
            instances = step.get("action", {}).get("instances", ())
            self._report(answer["connector"].rpartition("/")[0] or answer["connector"], instances)
        if words[0] == "resume":
            self._make_tasks(answer["connector"], release)

    @property
    def _environment(self) -> dict[str, str | None]:
        return {"CONTROLPLANE_CLUSTER": str(self._file), "CONTROLPLANE_TOKEN": None}

    def state(self, release: Profile) -> ClusterState:
        """State of a worker of this release."""
        return fold(in_order(self.log), release)

    def _make_tasks(self, name: str, release: Profile) -> None:
        """Commit the tasks of a running connector if it has none.

        A release with `commit_needs_config` also commits tasks again if they are older than the
        config.
        """
        has = self.state(release).config.task_ids(name)
        if has and not (release.commit_needs_config and self._has_older_tasks(name)):
            return
        tasks = self._made[name]
        for task, properties in tasks.items():
            value = json.dumps({"properties": properties})
            self._append([AppendedRecord(TOPICS.config, f"task-{name}-{task}", value)])
        self._append(
            [AppendedRecord(TOPICS.config, f"commit-{name}", json.dumps({"tasks": len(tasks)}))]
        )

    def _has_older_tasks(self, name: str) -> bool:
        last = {entry.key: entry.offset for entry in self.log if entry.topic == TOPICS.config}
        return last[f"commit-{name}".encode()] < last[f"connector-{name}".encode()]

    def _report(self, name: str, instances: Iterable[int | None]) -> None:
        for instance in instances:
            key = (
                f"status-connector-{name}" if instance is None else f"status-task-{name}-{instance}"
            )
            value = {"state": "RUNNING", "trace": None, "worker_id": "w2", "generation": 2}
            self._append([AppendedRecord(TOPICS.status, key, json.dumps(value))])

    # --- kcat -----------------------------------------------------------------------------------

    def _copy(self, consumer: list[str], later_programs: list[list[str]]) -> None:
        """Copy records from one kcat to another; consumers skip aborted records."""
        *filters, producer = later_programs
        topic, start = _option(consumer, "-t"), _option(consumer, "-o")
        taken = [entry for entry in self.log if entry.topic == topic and not entry.aborted]
        if start != "beginning":
            place = int(_option(consumer, "-p")), int(start)
            taken = [entry for entry in taken if (entry.partition, entry.offset) == place]
            assert taken, consumer
        key_end, record_end = _ENDS_BY_FORM[_option(consumer, "-f")]
        text = "".join(
            f"{_text(entry.key)}{key_end}{_text(entry.value)}{record_end}" for entry in taken
        )
        for program in filters:
            done = subprocess.run(program, input=text, capture_output=True, text=True, check=True)
            text = done.stdout
        self._append(_put(text, producer))

    def _append(self, records: Iterable[AppendedRecord]) -> None:
        """Append records to the ends of their topics, later than all others."""
        for topic, key, value, partition in records:
            ends = [
                entry.offset + 1
                for entry in self.log
                if (entry.topic, entry.partition) == (topic, partition)
            ]
            at_ms = max(entry.timestamp for entry in self.log) + 1
            content = None if value is None else value.encode()
            self.log.append(
                Entry(topic, partition, max(ends, default=0), at_ms, key.encode(), content)
            )

    def _write(self) -> None:
        with self._file.open("w", encoding="utf-8") as file:
            for entry in self.log:
                texts = {
                    "key": _text(entry.key),
                    "value": None if entry.value is None else _text(entry.value),
                }
                place = entry.position._asdict() | {"timestamp": entry.timestamp}
                file.write(json.dumps(place | texts | {"aborted": entry.aborted}) + "\n")


def pipelines(command: str) -> Iterator[list[list[str]]]:
    """Pipelines of a line, one after the other; each is a list of programs with their arguments."""
    parser = shlex.shlex(command, posix=True, punctuation_chars=";&|")
    parser.whitespace_split, parser.commenters = True, ""
    pipeline: list[list[str]] = [[]]
    for word in parser:
        if word in {"&&", ";"}:
            yield pipeline
            pipeline = [[]]
        elif word == "|":
            pipeline.append([])
        else:
            pipeline[-1].append(word)
    yield pipeline


def _printed(printf: list[str], producer: list[str]) -> Iterator[AppendedRecord]:
    assert printf[:2] == ["printf", r"%s\t%s\n"]
    return _put("\t".join(printf[2:]) + "\n", producer)


def _put(text: str, producer: list[str]) -> Iterator[AppendedRecord]:
    """Records that `kcat -P` makes of keys and values; -Z turns "" into a tombstone."""
    assert producer[:2] == ["kcat", "-P"]
    key_end = _CHARACTERS[_option(producer, "-K")]
    record_end = _CHARACTERS[_option(producer, "-D") if "-D" in producer else r"\n"]
    for line in text.removesuffix(record_end).split(record_end) if text else ():
        key, _, value = line.partition(key_end)
        partition = int(_option(producer, "-p")) if "-p" in producer else 0
        yield AppendedRecord(
            _option(producer, "-t"),
            key,
            None if "-Z" in producer and not value else value,
            partition,
        )


_ENDS_BY_FORM = {r"%k\t%s\n": ("\t", "\n"), r"%k\x1f%s": ("\x1f", "")}
"""Ends of keys and of records, by the format of `kcat -C`."""

_CHARACTERS = {r"\t": "\t", r"\n": "\n", r"\x1f": "\x1f", r"\x1e": "\x1e"}
"""Characters by kcat's names for them."""


def _option(words: list[str], name: str) -> str:
    return words[words.index(name) + 1]


def _text(content: bytes | None) -> str:
    return (content or b"").decode()


def targets(state: ClusterState) -> dict[str, Target]:
    """Return the target state of each connector; STARTED by default."""
    return {
        name: state.config.targets.get(name, Target.STARTED) for name in state.config.connectors
    }

"""Views of recorded logs in scenarios print the answers of the recorded workers."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from controlplane.core.entry import Entry
from controlplane.core.fold import fold
from controlplane.core.order import before, in_order
from controlplane.core.releases.profiles import Profile
from controlplane.scenario.notation import printable
from controlplane.scenario.story import StoryStep, read_story
from controlplane.scenario.views import VIEW_DEFINITIONS, WorkerView

EXACTLY_ONCE = {("exactly-once-3.9", "w1"), ("aborted-3.9", "w2")}
"""Workers that ran with exactly-once support."""

COMPACTED = 20
"""In `compacted-3.9`, the first observation of a worker that started after compaction."""

WHOLE = "/connectors?expand=status&expand=info"


def records(path: Path) -> Iterator[Entry]:
    """Yield the records of a recorded history."""
    for line in path.read_bytes().splitlines()[1:]:
        record = msgspec.json.decode(line)
        key, value = (
            None if record[name] is None else record[name].encode() for name in ("key", "value")
        )
        place = record["topic"], record["partition"], record["offset"], record["timestamp"]
        yield Entry(*place, key, value, (), record.get("aborted", False))


NAMES = [
    "life-2.8", "life-3.4", "life-3.9", "life-4.3", "exactly-once-3.9", "roll-3.4-3.9-3.4",
    "compacted-3.9", "aborted-3.9", "odd-records-3.9", "mirror-3.9",
]  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_views_equal_the_answers_of_workers(name: str, histories: Path) -> None:
    """Connectors, their numbers of tasks, and every status (state, worker, trace) are equal."""
    entries = in_order(records(histories / f"{name}.log.jsonl"))
    steps = read_story(histories / f"{name}.story.jsonl")
    observed = [step for step in steps if WHOLE in step.answers]
    if name == "compacted-3.9":
        observed = [step for step in observed if step.n >= COMPACTED]
    assert observed
    for step in observed:
        reader = reading(entries, name, step)
        whole = step.answers[WHOLE].answer
        cells = VIEW_DEFINITIONS["connectors"].cells(reader)
        assert {printable(connector) for connector in step.answers["/connectors"].answer} == set(
            cells
        )
        check_tasks(reader, whole)
        check_statuses(reader, whole)


def reading(entries: list[Entry], name: str, step: StoryStep) -> WorkerView:
    """View of the worker that was observed."""
    entries_read = list(before(entries, step.positions))
    exactly_once = (name, step.worker) in EXACTLY_ONCE
    state = fold(entries_read, Profile.of(step.release or ""), exactly_once=exactly_once)
    return WorkerView(state, entries_read)


def check_tasks(reader: WorkerView, whole: dict[str, Any]) -> None:
    """Check the column `tasks` against the worker's answer."""
    shared = VIEW_DEFINITIONS["connectors"].first
    assert shared is not None
    counts = shared.cells(reader)
    for name, answer in whole.items():
        assert counts[printable(name)] == str(len(answer["info"]["tasks"]))


def check_statuses(reader: WorkerView, whole: dict[str, Any]) -> None:
    """Check the view `status` row by row; it has no other row for these connectors."""
    cells = VIEW_DEFINITIONS["status"].cells(reader)
    for name, answer in whole.items():
        reports = {printable(name): answer["status"]["connector"]}
        reports |= {printable(f"{name}-{task['id']}"): task for task in answer["status"]["tasks"]}
        for label, report in reports.items():
            assert cells[label].startswith(f"{report['state']} {report['worker_id']} gen ")
            assert cells[label].endswith(printable(report.get("trace", "")))
        tasks = reader.state.status.tasks.get(name, {})
        assert len(tasks) == len(answer["status"]["tasks"])

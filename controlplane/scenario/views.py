"""Views: each has a function that maps the state of one worker to a cell per row label.

The verb `view` joins the cells of all workers to a table.
"""

from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from controlplane.core import views
from controlplane.core.entry import Entry
from controlplane.core.fold import FateKind, Fold, ListenerCall, RecordFate
from controlplane.core.moments import position_text
from controlplane.core.records import Activity, CommandTrace, RestartRequest, Status
from controlplane.core.state import ClusterState
from controlplane.core.views.hazards import hazards
from controlplane.scenario.notation import key_text_of, printable, text_of
from controlplane.scenario.transcript import NONE, json_text

NO_CALL = "-"
FAILS = "(fails)"
"""Cell for a request that a worker answers with an error."""


class WorkerView(NamedTuple):
    """State of one worker, and the records behind it."""

    state: ClusterState
    entries: Sequence[Entry]

    @property
    def fold(self) -> Fold:
        """Empty fold with the options of this worker."""
        state = self.state
        return Fold(state.profile, topics=state.topics, exactly_once=state.exactly_once)


CellFunction = Callable[[WorkerView], Mapping[str, str]]


class SharedColumn(NamedTuple):
    """One column for all workers, for values on which they mostly agree."""

    title: str
    cells: CellFunction
    merge: Callable[[Sequence[str]], str]
    """Function from the workers' cells to the shared cell."""


class ViewDefinition(NamedTuple):
    """Columns of a view, and the cells that each worker puts in them."""

    subject: str
    """Title of the first column."""
    cells: CellFunction
    first: SharedColumn | None = None
    """A shared column before those of the workers."""
    last: SharedColumn | None = None
    """A shared column after those of the workers."""
    bare: bool = False
    """No header if there is only one column."""
    omitted_cell: str = ""
    """A row is left out if all of its cells have this text."""


def _in_order(texts: Sequence[str]) -> str:
    """The common value; if values differ, all of them in the order of the columns."""
    different = set(filter(None, texts))
    return different.pop() if len(different) == 1 else "|".join(text or "-" for text in texts)


def _once_each(texts: Sequence[str]) -> str:
    """The distinct texts, without those that are a prefix of another one."""
    distinct = list(dict.fromkeys(filter(None, texts)))
    return " | ".join(
        text
        for text in distinct
        if not any(other != text and other.startswith(text) for other in distinct)
    )


def _connectors(reader: WorkerView) -> dict[str, str]:
    """Connectors that have a config, with their target states."""
    return {printable(name): _target(reader.state, name) for name in views.connectors(reader.state)}


def _target(state: ClusterState, name: str) -> str:
    target = views.target(state, name)
    shown = "(no target)" if target is None else target.value
    return shown + (", inconsistent" if name in state.config.inconsistent else "")


def _task_counts(reader: WorkerView) -> dict[str, str]:
    """Number of tasks of each connector that would run."""
    counts = {}
    for name in views.connectors(reader.state):
        try:
            counts[printable(name)] = str(len(views.task_ids(reader.state, name)))
        except views.ReadFailed:
            counts[printable(name)] = FAILS
    return counts


def _tasks(reader: WorkerView) -> dict[str, str]:
    """Task configs as `GET /connectors/{c}/tasks` lists them, and those that wait for a commit."""
    state, cells = reader.state, {}
    for name in views.connectors(state):
        hidden = ", inconsistent" if name in state.config.inconsistent else ""
        try:
            configs = views.task_configs(state, name)
        except views.ReadFailed:
            cells[printable(name)] = FAILS + hidden
            continue
        for task, config in configs.items():
            shown = "(no config)" if config is None else json_text(config)
            cells[printable(f"{name}-{task}")] = shown + hidden
    for name, waiting in state.config.deferred.items():
        for task, config in waiting.items():
            cells[printable(f"{name}-{task} deferred")] = json_text(config)
    return cells


def _status(reader: WorkerView) -> dict[str, str]:
    """Reported statuses of connectors and tasks, also of those without a config."""
    status = reader.state.status
    cells = {printable(name): _report(report) for name, report in status.connectors.items()}
    for name, tasks in status.tasks.items():
        for task, report in tasks.items():
            cells[printable(f"{name}-{task}")] = _report(report)
    return cells


def _report(report: Status) -> str:
    shown = f"{report.state.value} {report.worker_id or NONE} gen {report.generation}"
    version = f" version {report.version}" if report.version else ""
    return printable(shown + version + (f" {report.trace}" if report.trace else ""))


def _topics(reader: WorkerView) -> dict[str, str]:
    """Active topics, by connector and topic as the record's key names them; the cell has the task.

    If the record's value names another connector or topic than its key, the value's names precede
    the task.
    """
    return {
        printable(f"{name} {topic}"): _use(name, topic, use)
        for name, topics in reader.state.status.active_topics.items()
        for topic, use in topics.items()
    }


def _use(name: str, topic: str, use: Activity) -> str:
    other = "" if (use.connector, use.topic) == (name, topic) else f"{use.connector} {use.topic} "
    return printable(f"{other}task {use.task}")


def _offsets(reader: WorkerView) -> dict[str, str]:
    """Offsets as a task finds them: by raw key."""
    usual = reader.state.topics.offsets
    return {
        ("" if topic == usual else f"{topic} ") + key_text_of(key): text_of(value)
        for topic, part in reader.state.offsets.items()
        for key, value in part.values.items()
    }


def _partitions(reader: WorkerView) -> dict[str, str]:
    """Source partitions as `GET /connectors/{c}/offsets` lists them."""
    state, cells = reader.state, {}
    for name in views.connectors(state) if state.profile.rest_offsets else ():
        for view in views.source_offsets(state, name):
            if view.offset is not None or not state.profile.rest_kip_offsets:
                cells[printable(f"{name} {json_text(view.partition)}")] = json_text(view.offset)
    return cells


def _fencing(reader: WorkerView) -> dict[str, str]:
    """Facts about producers that a leader may have to fence."""
    config = reader.state.config
    names = {*config.fenced_counts, *config.pending_fencing, *config.generations}
    return {printable(name): ", ".join(_fences(reader.state, name)) for name in names}


def _fences(state: ClusterState, name: str) -> Iterator[str]:
    yield f"count {state.config.fenced_counts.get(name, NONE)}"
    if name in state.config.pending_fencing:
        yield "pending"
    if name in state.config.generations:
        yield f"generation {state.config.generations[name]}"


def _worker(reader: WorkerView) -> dict[str, str]:
    """Facts about the worker that concern no connector."""
    config = reader.state.config
    cells = {"config offset": str(config.offset)}
    if config.session_key:
        key = b64encode(config.session_key.key).decode()
        cells["session key"] = f"{key} {printable(config.session_key.algorithm)}"
    return cells


def _commands(reader: WorkerView) -> dict[str, str]:
    """Commands in the command topic: the request and its outcome."""
    return {
        printable(name): printable(f"{_request_words(trace)}: {_outcome_words(trace)}")
        for name, trace in reader.state.commands.items()
    }


def _request_words(trace: CommandTrace) -> str:
    record = trace.accepted or trace.refused
    command = {} if record is None else record.command
    parts = (str(command[key]) for key in ("command", "connector") if key in command)
    return " ".join(parts) or NONE


def _outcome_words(trace: CommandTrace) -> str:
    # After a refusal, a command with the same id may be accepted. Its outcome is then shown.
    if trace.refused is not None and trace.accepted is None:
        return f"refused, {trace.refused.reason}"
    if trace.finished is None:
        return "unfinished"
    outcome = trace.finished.outcome
    message = outcome.get("text") or outcome.get("message")
    return str(outcome.get("ended", NONE)) + (f", {message}" if message else "")


def _outcomes(reader: WorkerView) -> dict[str, str]:
    """Fate of each record for a worker that reads it at start-up."""
    applied = _applied(reader, reader.fold)
    return {label: outcome.kind.value for label, outcome in applied}


def _reasons(reader: WorkerView) -> dict[str, str]:
    """The reason of each record's fate, with the Java exception if there is one."""
    return {label: _reason(outcome) for label, outcome in _applied(reader, reader.fold)}


def _reason(outcome: RecordFate) -> str:
    thrown = f" ({outcome.thrown})" if outcome.thrown else ""
    return printable(outcome.reason + thrown)


def _calls(reader: WorkerView) -> dict[str, str]:
    """Listener calls of each record in a worker that was running before the first one."""
    fold = reader.fold
    fold.live = True
    return {
        label: "; ".join(_call(call) for call in outcome.calls) or NO_CALL
        for label, outcome in _applied(reader, fold)
    }


def _call(call: ListenerCall) -> str:
    match call:
        case ListenerCall("restart", _, RestartRequest(name, include_tasks, only_failed)):
            flags = {"with tasks": include_tasks, "only failed": only_failed}
            return printable(" ".join(["restart", name, *(flag for flag in flags if flags[flag])]))
        case ListenerCall("logger level", namespace, level):
            return printable(f"logger level {namespace} {level}")
        case ListenerCall("session key"):
            return "session key"
        case ListenerCall("task configs", frozenset() as tasks):
            named = sorted(f"{name}-{task}" for name, task in tasks) or [NONE]
            return printable(" ".join(["task configs", *named]))
    return printable(f"{call.name} {call.subject}")


def _applied(reader: WorkerView, fold: Fold) -> Iterator[tuple[str, RecordFate]]:
    for entry in reader.entries:
        yield f"{_place(reader, entry)} {key_text_of(entry.key)}", fold.apply(entry)


def _place(reader: WorkerView, entry: Entry) -> str:
    return position_text(entry.position, reader.state.topics)


def _hazards(reader: WorkerView) -> dict[str, str]:
    """Records at which this worker fails, or about which the members of a cluster disagree."""
    state = reader.state
    places = {entry.position: _place(reader, entry) for entry in reader.entries}
    hazards_found = hazards(
        reader.entries, state.profile, topics=state.topics, exactly_once=state.exactly_once
    )
    return {places[hazard.position]: hazard.danger.value for hazard in reversed(hazards_found)}


VIEW_DEFINITIONS: Mapping[str, ViewDefinition] = {
    "connectors": ViewDefinition(
        "connector", _connectors, SharedColumn("tasks", _task_counts, _in_order)
    ),
    "tasks": ViewDefinition("task", _tasks),
    "status": ViewDefinition("status", _status),
    "topics": ViewDefinition("topic", _topics),
    "offsets": ViewDefinition("source offset", _offsets, bare=True),
    "partitions": ViewDefinition("partition", _partitions),
    "fencing": ViewDefinition("connector", _fencing),
    "worker": ViewDefinition("worker", _worker),
    "commands": ViewDefinition("command", _commands, bare=True),
    "outcomes": ViewDefinition(
        "record",
        _outcomes,
        last=SharedColumn("why", _reasons, _once_each),
        omitted_cell=FateKind.ACCEPTED.value,
    ),
    "calls": ViewDefinition("record", _calls, omitted_cell=NO_CALL),
    "hazards": ViewDefinition("record", _hazards),
}

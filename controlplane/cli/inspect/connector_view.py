"""`--connector NAME`: the state of one connector in full."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from controlplane.cli.inspect.connector_facts import NONE, facts, names, status_document
from controlplane.cli.inspect.overview import heading
from controlplane.cli.inspect.sink_lag import consumer_group, print_group
from controlplane.cli.inspect.unreadable_summary import places_of
from controlplane.cli.opened_log import InputLog
from controlplane.core import views
from controlplane.core.entry import Position
from controlplane.core.moments import position_text, time_text
from controlplane.core.plugins import Plugins
from controlplane.core.releases.profiles import Profile
from controlplane.core.state import ClusterState, Topics
from controlplane.core.text.durations import since_text
from controlplane.core.text.record_text import place
from controlplane.core.text.redaction import redacted, redacted_text, redacted_value
from controlplane.core.text.safe_text import count
from controlplane.core.text.value_text import json_line
from controlplane.core.views.source_progress import SourceProgress
from controlplane.event_loop import now_ms
from controlplane.projection.offset_changes import OffsetObserver, read_source_progress
from controlplane.terminal.command_errors import InputRefused
from controlplane.terminal.log_options import LogOptions
from controlplane.terminal.output import print_json, say
from controlplane.terminal.tables import table

OFFSETS_SHOWN = 50
"""Source partitions in a table; JSON has them all."""

NAMES_SHOWN = 10
"""Number of connectors that the error about an unknown one lists."""


async def show(  # noqa: PLR0913 - facts of the view, by name
    source: InputLog,
    profile: Profile,
    plugins: Plugins,
    output: str,
    name: str,
    *,
    cluster_access: LogOptions | None,
) -> None:
    """Print one connector.

    `cluster_access`: options for reading the consumer group of a sink. It is None for a past state,
    because past offsets are not read.

    Raises:
        InputRefused: the log has nothing about it.
    """
    observer = OffsetObserver(name, source.topics, exactly_once=source.exactly_once)
    fold = await source.fold(profile, observer=observer)
    state = fold.snapshot()
    check_connector(name, [state])
    offsets = views.all_source_offsets(state, name)
    left_out = await places_of(offsets.left_out, source, fold)
    about = describe(state, name, plugins)
    shown = await read_source_progress(source.log, state, name, offsets, observer)
    group = None
    if cluster_access is not None and about["type"] == "sink":
        group = await consumer_group(source, cluster_access, state, name)
    document = source.document_fields | about | _offsets(shown, state.topics, left_out)
    document |= {"consumer_group": group}
    if output == "json":
        print_json(document)
    else:
        say(f"{name}, as {heading(profile, source)}", style="bold")
        _print(document, None if cluster_access is None else now_ms())
        _print_left_out(left_out, source.topics)


def check_connector(name: str, states: Sequence[ClusterState]) -> None:
    """Raise `InputRefused` unless a state has something about the connector."""
    connectors = sorted({connector for state in states for connector in names(state)})
    if name in connectors or any(_has_traces(state, name) for state in states):
        return
    shown_names = ", ".join(connectors[:NAMES_SHOWN]) + (", …" if connectors[NAMES_SHOWN:] else "")
    raise InputRefused(
        f"there is no connector {name!r} at this point of the log (connectors: "
        f"{shown_names or 'none'}): check the name and --as-of"
    )


def _has_traces(state: ClusterState, name: str) -> bool:
    """True if a name without a config has statuses, topics or offsets."""
    status = state.status
    reported = name in status.tasks or name in status.active_topics
    return reported or any(views.all_source_offsets(state, name))


def describe(state: ClusterState, name: str, plugins: Plugins) -> dict[str, Any]:
    """State of one connector as JSON, without its offsets. Secrets are hidden."""
    half_done = [half.value for owner, half in views.half_done(state) if owner == name]
    brief = facts(state, name, plugins, half_done)
    config = state.config.connectors.get(name)
    tasks, failure = _tasks(state, name)
    return {
        "profile": state.profile.release,
        "exactly_once": state.exactly_once,
        **msgspec.to_builtins(brief, str_keys=True),
        "config": None if config is None else redacted(config),
        "connector_status": status_document(state.status.connectors.get(name)),
        "task_list": tasks,
        "active_topics": views.active_topics(state, name),
        "offsets_topics": views.offsets_topics(state, name),
        "inconsistent": name in state.config.inconsistent,
        "half_done": half_done,
        "reading_fails": failure,
    }


def _tasks(state: ClusterState, name: str) -> tuple[list[dict[str, Any]], str | None]:
    """Tasks that have a config or a status, and the error if a worker cannot list them."""
    failure: str | None = None
    try:
        configs = views.task_configs(state, name)
    except views.ReadFailed as error:
        configs, failure = dict(state.config.tasks.get(name, {})), str(error)
    reported, waiting = state.status.tasks.get(name, {}), state.config.deferred.get(name, {})
    tasks = [
        {
            "task": task,
            "config": redacted(configs.get(task) or {}) if task in configs else None,
            "waiting_config": redacted(waiting[task]) if task in waiting else None,
            "status": status_document(reported.get(task)),
        }
        for task in sorted({*configs, *reported, *waiting})
    ]
    return tasks, failure


def _offsets(
    shown: Iterable[SourceProgress],
    topics: Topics,
    left_out: Mapping[Position, views.UnreadableOffset],
) -> dict[str, Any]:
    """Source offsets as JSON: those that a worker shows, and those that it cannot read."""
    return {
        "source_offsets": [
            redacted_value("", {"partition": view.partition, "offset": view.offset})
            | {
                "changed_at": None if entry is None else time_text(entry.timestamp),
                "record": None if entry is None else position_text(entry.position, topics),
            }
            for view, entry in shown
        ],
        "unreadable_offsets": [
            {
                "partition": redacted_value("", unreadable.partition),
                "position": position._asdict(),
                "reason": redacted_text(unreadable.reason),
            }
            for position, unreadable in left_out.items()
        ],
    }


def _print(document: Mapping[str, Any], now: int | None) -> None:
    status = document["connector_status"]
    lines = {
        "type": document["type"],
        "target state": document["target_state"] or NONE,
        "status": _reported(status),
        "tasks": NONE if document["tasks"] is None else str(document["tasks"]),
        "active topics": ", ".join(document["active_topics"]) or NONE,
        "remarks": "; ".join(document["flags"]) or NONE,
    }
    table(("", ""), lines.items())
    say()
    config = document["config"]
    if config is None:
        say("no connector config")
    else:
        table(("CONFIG", ""), [(key, _text(value)) for key, value in sorted(config.items())])
    say()
    if document["reading_fails"]:
        say(f"a worker fails at reading the connector's tasks: {document['reading_fails']}")
    _print_tasks(document["task_list"])
    say()
    _print_offsets(document, now)


def _print_tasks(tasks: list[dict[str, Any]]) -> None:
    if not tasks:
        say("no tasks")
        return
    rows = [
        (str(task["task"]), _reported(task["status"]), _config(task["config"]), _waiting(task))
        for task in tasks
    ]
    table(("TASK", "STATUS", "CONFIG", "WAITS FOR COMMIT"), rows)


def _print_offsets(document: Mapping[str, Any], now: int | None) -> None:
    if document["consumer_group"] is not None:
        print_group(document["consumer_group"])
        return
    if document["type"] == "sink":
        why = "not in this log" if now is not None else "which is not read for a past moment"
        say(f"its offsets lie in its consumer group, {why}")
        return
    offsets = document["source_offsets"]
    if not offsets and document["unreadable_offsets"]:
        say("no source offsets that the worker can read")
        return
    if not offsets:
        say("no source offsets (those of a sink lie in its consumer group, not in this log)")
        return
    rows = [
        (
            _text(entry["partition"]),
            _text(entry["offset"]),
            since_text(entry["changed_at"] or NONE, now),
        )
        for entry in offsets[:OFFSETS_SHOWN]
    ]
    table(("SOURCE PARTITION", "SOURCE OFFSET", "UNCHANGED SINCE"), rows)
    unlisted = len(offsets) - OFFSETS_SHOWN
    if unlisted > 0:
        say(f"… and {count(unlisted, 'source partition')} more; -o json has them all")
    if any(entry["offset"] is None for entry in offsets):
        say(
            "null: the worker serializes this key differently than the log, so it finds no "
            "offset; --hazards lists such records"
        )


def _print_left_out(left_out: Mapping[Position, views.UnreadableOffset], topics: Topics) -> None:
    """Print the source partitions that a worker leaves out, with the unreadable record."""
    if not left_out:
        return
    say(f"{count(len(left_out), 'source partition')} that the worker cannot read, and leaves out:")
    for position, unreadable in list(left_out.items())[:OFFSETS_SHOWN]:
        partition = _text(redacted_value("", unreadable.partition))
        say(f"  {place(position, topics)}  {partition}  {redacted_text(unreadable.reason)}")
    unlisted = len(left_out) - OFFSETS_SHOWN
    if unlisted > 0:
        say(f"  … and {unlisted} more; -o json has them all")


def _reported(status: Mapping[str, Any] | None) -> str:
    if status is None:
        return NONE
    version = f", version {status['version']}" if status["version"] else ""
    trace = status.get("trace")
    why = f": {trace.splitlines()[0]}" if trace else ""
    where = f"on {status['worker_id']}, generation {status['generation']}"
    return f"{status['state']} {where}{version}{why}"


def _config(config: Mapping[str, Any] | None) -> str:
    return NONE if config is None else ", ".join(f"{k}={_text(v)}" for k, v in config.items())


def _waiting(task: Mapping[str, Any]) -> str:
    return "" if task["waiting_config"] is None else _config(task["waiting_config"])


def _text(value: Any) -> str:
    """A JSON value; a text without its quotes."""
    return value if isinstance(value, str) else json_line(value)

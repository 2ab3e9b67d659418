"""`--connector NAME`: everything that a worker knows about one connector."""

from collections.abc import Mapping
from typing import Any

import msgspec

from controlplane.cli.failing import Refused
from controlplane.cli.inspect.facts import NONE, facts, names, report
from controlplane.cli.inspect.overview import heading
from controlplane.cli.printing import count, print_json, say
from controlplane.cli.sources import Source
from controlplane.cli.tables import table
from controlplane.core import views
from controlplane.core.plugins import Plugins
from controlplane.core.profiles import Profile
from controlplane.core.redact import redacted, redacted_value
from controlplane.core.shown import json_line
from controlplane.core.state import ClusterState

OFFSETS_SHOWN = 50
"""How many source partitions a table lists; JSON has them all."""

NAMED = 10
"""How many connectors are named where the one asked for is not there."""


async def show(
    source: Source, profile: Profile, plugins: Plugins | None, output: str, name: str
) -> None:
    """Print one connector.

    Raises:
        Refused: nothing is known of it.
    """
    state = await source.state(profile)
    known = names(state)
    if name not in known and not _traces(state, name):
        some = ", ".join(known[:NAMED]) + (", …" if len(known) > NAMED else "")
        raise Refused(f"no connector {name!r} is known at this point (known: {some or 'none'})")
    document = source.about | describe(state, name, plugins or Plugins())
    if output == "json":
        print_json(document)
    else:
        say(f"{name}, as {heading(profile, source)}", style="bold")
        _print(document)


def _traces(state: ClusterState, name: str) -> bool:
    """Whether there are statuses, topics or offsets under a name that has no config."""
    status = state.status
    return bool(
        name in status.tasks or name in status.active_topics or views.source_offsets(state, name)
    )


def describe(state: ClusterState, name: str, plugins: Plugins) -> dict[str, Any]:
    """All about one connector, as JSON. Secrets are hidden."""
    halves = [half.value for owner, half in views.half_done(state) if owner == name]
    brief = facts(state, name, plugins, halves)
    config = state.config.connectors.get(name)
    tasks, fails = _tasks(state, name)
    return {
        "profile": state.profile.release,
        "exactly_once": state.exactly_once,
        **msgspec.to_builtins(brief, str_keys=True),
        "config": None if config is None else redacted(config),
        "connector_status": report(state.status.connectors.get(name)),
        "task_list": tasks,
        "active_topics": views.active_topics(state, name),
        "source_offsets": _offsets(state, name),
        "offsets_topics": views.offsets_topics(state, name),
        "inconsistent": name in state.config.inconsistent,
        "half_done": halves,
        "reading_fails": fails,
    }


def _tasks(state: ClusterState, name: str) -> tuple[list[dict[str, Any]], str | None]:
    """Each task that has a config or a status, and why a worker could not list them, if so."""
    fails: str | None = None
    try:
        configs = views.task_configs(state, name)
    except views.ReadFailed as failure:
        configs, fails = dict(state.config.tasks.get(name, {})), str(failure)
    reported, waiting = state.status.tasks.get(name, {}), state.config.deferred.get(name, {})
    tasks = [
        {
            "task": task,
            "config": redacted(configs.get(task) or {}) if task in configs else None,
            "waiting_config": redacted(waiting[task]) if task in waiting else None,
            "status": report(reported.get(task)),
        }
        for task in sorted({*configs, *reported, *waiting})
    ]
    return tasks, fails


def _offsets(state: ClusterState, name: str) -> list[dict[str, Any]]:
    found = views.source_offsets(state, name)
    return [redacted_value("", {"partition": one.partition, "offset": one.offset}) for one in found]


def _print(document: Mapping[str, Any]) -> None:
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
        say(f"a worker fails at reading its tasks: {document['reading_fails']}")
    _print_tasks(document["task_list"])
    say()
    _print_offsets(document)


def _print_tasks(tasks: list[dict[str, Any]]) -> None:
    if not tasks:
        say("no tasks")
        return
    rows = [
        (str(task["task"]), _reported(task["status"]), _config(task["config"]), _waiting(task))
        for task in tasks
    ]
    table(("TASK", "STATUS", "CONFIG", "WAITS FOR COMMIT"), rows)


def _print_offsets(document: Mapping[str, Any]) -> None:
    if document["type"] == "sink":
        say("its offsets lie in its consumer group, not in this log")
        return
    found = document["source_offsets"]
    if not found:
        say("no source offsets (those of a sink lie in its consumer group, not in this log)")
        return
    rows = [(_text(one["partition"]), _text(one["offset"])) for one in found[:OFFSETS_SHOWN]]
    table(("SOURCE PARTITION", "SOURCE OFFSET"), rows)
    more = len(found) - OFFSETS_SHOWN
    if more > 0:
        say(f"… and {count(more, 'source partition')} more; -o json has them all")
    if any(one["offset"] is None for one in found):
        say("null: the worker looks under other key bytes than those in the log (see --hazards)")


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

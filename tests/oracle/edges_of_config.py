"""Edge cases of the config topic, as questions to Kafka's classes."""

from tests.oracle.probe import (
    CONNECTOR,
    Edge,
    Probe,
    at,
    both,
    calls,
    commit,
    config,
    fate,
    holds,
    named,
    polled,
    replayed,
    report,
    status,
    target,
    task,
)

COUNT = at("config.connectorTaskCounts", "a")
TARGET = at("config.connectorTargetStates", "a")
CONNECTORS = named("connectors:", holds("config.connectorConfigs"))
TASKS = named("tasks:", holds("config.taskConfigs"))
DEFERRED = named("deferred:", at("config.deferredTaskUpdates", "a"))
IDS = at("config.tasks", "a")

OTHER = ("connector-b", '{"properties":{}}')
THIRD = ("connector-c", '{"properties":{}}')

DEEP = b"[" * 30_000 + b"]" * 30_000
CUT = b"[" * 30_000
PAUSED = '{"state":"PAUSED"}'


def _count(text: str) -> Probe:
    case = config(CONNECTOR, commit(text))
    return Probe(f"`commit` with `{text}`", case, both(fate(1), named("count", COUNT)))


def _key(key: str) -> Probe:
    held = named("deferred:", at("config.deferredTaskUpdates"))
    return Probe(f"key `{key}`", config((key, '{"properties":{}}')), both(fate(0), held))


def _target(content: str) -> Probe:
    case = config(CONNECTOR, target(PAUSED), target(content))
    return Probe(f"PAUSED, then `{content}`", case, both(fate(2), TARGET))


def _secret(content: str, says: str) -> Probe:
    return Probe(f"`session-key` {says}", config(("session-key", content)), fate(0))


CONFIG_EDGES = (
    Edge(
        1,
        "JSON `null` deletes a connector; in some releases an empty value does, too.",
        (
            Probe(
                "connector, then JSON `null`",
                config(CONNECTOR, ("connector-a", "null")),
                CONNECTORS,
            ),
            Probe(
                "connector, then an empty value",
                config(CONNECTOR, ("connector-a", "")),
                CONNECTORS,
            ),
            Probe("connector, then a space", config(CONNECTOR, ("connector-a", " ")), CONNECTORS),
        ),
    ),
    Edge(
        2,
        "JSON `null` in the status topic is an error, not a delete.",
        (
            Probe(
                "task status RUNNING, then JSON `null`",
                status(report(1), ("status-task-a-0", "null")),
                both(fate(1), at("status.tasks", "a", "0", "state")),
            ),
        ),
    ),
    Edge(
        3,
        "A bad integer in a commit or fencing record drops the rest of the poll batch.",
        (
            Probe('commit with `"1"`', config(CONNECTOR, commit('"1"')), fate(1)),
            Probe("commit without `tasks`", config(CONNECTOR, ("commit-a", "{}")), fate(1)),
            Probe(
                "`tasks-fencing-a` with `1.0`",
                config(("tasks-fencing-a", '{"task-count":1.0}')),
                fate(0),
            ),
            Probe(
                "batch of `a`, the bad commit, `b`; then batch of `c`",
                polled(CONNECTOR, commit('"1"'), OTHER, THIRD),
                CONNECTORS,
            ),
        ),
    ),
    Edge(
        4,
        "Poison ends a starting worker; up to 3.8 it also ends the log thread of a running one.",
        (
            Probe("null key", config((None, "{}")), fate(0)),
            Probe("null key in the status topic", status((None, "{}")), fate(0)),
            _secret('{"key":"*","algorithm":"x","creation-timestamp":1}', "that is not base64"),
            _secret('{"key":"","algorithm":"x","creation-timestamp":1}', "that is empty"),
            _secret('{"key":"AQID"}', "without `algorithm`"),
            Probe("connector without `properties`", config(("connector-a", "{}")), fate(0)),
            Probe("task without `properties`", config(("task-a-0", "{}")), fate(0)),
            Probe("commit `0`, nothing deferred", config(CONNECTOR, commit(0)), fate(1)),
            Probe("a value of 30 000 levels", config(("connector-a", DEEP)), fate(0)),
            Probe("the same, cut off in the middle", config(("connector-a", CUT)), fate(0)),
            Probe(
                "batch of `a`, a null key, `b`; then batch of `c`",
                polled(CONNECTOR, (None, "{}"), OTHER, THIRD),
                CONNECTORS,
            ),
        ),
        "In the last log, `KafkaBasedLog.WorkThread` of a running worker reads the two batches. "
        "In a starting worker, these exceptions reach `DistributedHerder#run`, which ends the "
        "process.",
    ),
    Edge(
        5,
        "A count of `2.0` is refused, `4294967296` is read as 0, and `-1` is accepted.",
        (
            *map(_count, ("2.0", "4294967296", "-1", "18446744073709551617")),
            Probe("`tasks()` after count -1", config(CONNECTOR, commit(0), commit(-1)), IDS),
        ),
    ),
    Edge(
        6,
        "Text after a complete JSON object is accepted; `NaN` is not.",
        (
            Probe('`{"properties":{}} x`', config(("connector-a", '{"properties":{}} x')), fate(0)),
            Probe(
                "`{}{}` under an unknown key",
                config(("k", "{}{}")),
                named("offset", at("config.offset")),
            ),
            Probe("`1x` under an unknown key", config(("k", "1x")), fate(0)),
            Probe(
                '`{"properties":{"k":NaN}}`',
                config(("connector-a", '{"properties":{"k":NaN}}')),
                fate(0),
            ),
        ),
    ),
    Edge(
        7,
        "Java's `split` and `parseInt` parse task ids.",
        tuple(
            map(
                _key,
                (
                    *("task-a-b-0", "task-a-2---", "task-a-+3", "task-a-007", "task-a-٣"),
                    *("task-a--1", "task--0", "task-0", "task-a-99999999999"),
                ),
            )
        ),
    ),
    Edge(
        8,
        "Deferred task configs beyond the committed count are applied and kept, too.",
        (
            Probe(
                "tasks 0, 1, 2, then commit 1",
                config(CONNECTOR, task(0), task(1), task(2), commit(1)),
                both(TASKS, named("ids", IDS)),
            ),
        ),
    ),
    Edge(
        9,
        "An inconsistent commit still updates the task count.",
        (
            Probe(
                "task 0, commit 1, commit 2",
                config(CONNECTOR, task(0), commit(1), commit(2)),
                both(named("count", COUNT), named("ids", IDS)),
            ),
        ),
    ),
    Edge(
        10,
        "A commit of 0 tasks raises the generation only if `deferredTaskUpdates` has an entry for "
        "the connector, even an empty one.",
        (
            Probe(
                "commit 0",
                config(CONNECTOR, commit(0)),
                named("generation", at("config.connectorTaskConfigGenerations", "a")),
            ),
            Probe(
                "task 0, commit 1, commit 0",
                config(CONNECTOR, task(0), commit(1), commit(0)),
                named("generation", at("config.connectorTaskConfigGenerations", "a")),
            ),
        ),
    ),
    Edge(
        11,
        "A commit that precedes its connector is applied; from 3.7.1 on it removes the task "
        "configs.",
        (
            Probe(
                "task 0, commit 1, connector",
                config(task(0), commit(1), CONNECTOR),
                both(named("count", COUNT), TASKS),
            ),
        ),
    ),
    Edge(
        12,
        "Newer releases remove more with a connector; its target state, fencing and "
        "inconsistency stay.",
        (
            Probe(
                "connector, task 0, commit 1, task 1, tombstone",
                config(CONNECTOR, task(0), commit(1), task(1), ("connector-a", None)),
                both(named("count", COUNT), TASKS, DEFERRED),
            ),
            Probe(
                "connector, PAUSED, commit 1, tombstone",
                config(CONNECTOR, target(PAUSED), commit(1), ("connector-a", None)),
                both(named("target", TARGET), named("inconsistent", at("config.inconsistent"))),
            ),
            Probe(
                "connector, fencing 2, tombstone",
                config(CONNECTOR, ("tasks-fencing-a", '{"task-count":2}'), ("connector-a", None)),
                named("fenced count", at("config.connectorTaskCountRecords", "a")),
            ),
        ),
    ),
    Edge(
        13,
        "A target state that precedes its connector is kept; a tombstone of a target state sets "
        "STARTED without a listener call.",
        (
            Probe("PAUSED, then the connector", config(target(PAUSED), CONNECTOR), TARGET),
            Probe(
                "connector, PAUSED, tombstone of the target",
                config(CONNECTOR, target(PAUSED), ("target-state-a", None)),
                both(TARGET, calls(2)),
            ),
            Probe("PAUSED without a connector", config(target(PAUSED)), calls(0)),
            Probe("PAUSED twice", config(CONNECTOR, target(PAUSED), target(PAUSED)), calls(2)),
        ),
    ),
    Edge(
        14,
        "An unknown `state.v2` prevents the fallback to `state`; a value of a wrong type does not.",
        tuple(
            map(
                _target,
                (
                    '{"state":"STARTED","state.v2":"FUTURE"}',
                    '{"state":"STARTED","state.v2":7}',
                    '{"state":"STARTED","state.v2":null}',
                ),
            )
        ),
    ),
    Edge(
        15,
        "STOPPED without `state.v2` is read from 3.5 on, and ignored before.",
        (_target('{"state":"STOPPED"}'), _target('{"state":"PAUSED","state.v2":"STOPPED"}')),
    ),
    Edge(
        16,
        "The config offset skips undecodable records, and counts unknown keys.",
        (
            Probe("unknown key at 0", config(("k", "{}")), named("offset", at("config.offset"))),
            Probe(
                "unknown key at 0, invalid JSON at 1",
                config(("k", "{}"), ("connector-a", "?")),
                named("offset", at("config.offset")),
            ),
        ),
        "The consumer skips transaction markers, so the config offset never counts them.",
    ),
    Edge(
        17,
        "Restart requests and logger levels are events: only a running worker acts on them.",
        tuple(
            Probe(f"{key}, {when}", make((key, value)), calls(0))
            for key, value in (
                ("restart-connector-a", '{"include-tasks":true,"only-failed":false}'),
                ("logger-cluster-a", '{"level":"DEBUG"}'),
            )
            for when, make in (("live", config), ("at start", replayed))
        ),
    ),
    Edge(
        18,
        "A tombstone of `tasks-fencing` is ignored; a missing record means: never fenced.",
        (
            Probe(
                "fencing 2, then its tombstone",
                config(("tasks-fencing-a", '{"task-count":2}'), ("tasks-fencing-a", None)),
                both(fate(1), named("fenced count", at("config.connectorTaskCountRecords", "a"))),
            ),
        ),
        "`DistributedHerder#doFenceZombieSourceTasks` interprets a missing record.",
    ),
    Edge(
        19,
        "Property values may have any type, and may be null.",
        (
            Probe(
                '`{"b":true,"n":null,"o":{},"r":1.5}`',
                config(("connector-a", '{"properties":{"b":true,"n":null,"o":{},"r":1.5}}')),
                at("config.connectorConfigs", "a"),
            ),
        ),
    ),
)

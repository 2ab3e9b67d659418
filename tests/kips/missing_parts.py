"""Sentences of the KIPs that cannot be tested yet, each with the part that is missing.

The rows are by KIP and section; a row is one sentence, in our words. As soon as a missing part
exists, `test_missing_parts` fails: its rows then become tests.
"""

from collections.abc import Mapping
from enum import Enum
from typing import NamedTuple


class MissingPart(Enum):
    """Missing part of the control plane."""

    TASKS = "connectors and tasks that run here"
    GROUP = "workers that form a group: who leads, who has which task, rebalances"


class Later(NamedTuple):
    """A sentence, and what it waits for."""

    says: str
    needs: MissingPart


def _tasks(*sentences: str) -> tuple[Later, ...]:
    return tuple(Later(says, MissingPart.TASKS) for says in sentences)


def _group(*sentences: str) -> tuple[Later, ...]:
    return tuple(Later(says, MissingPart.GROUP) for says in sentences)


Sections = Mapping[str, tuple[Later, ...]]

_KIP_52: Sections = {
    "Pause connector": (
        *_tasks("Connector and tasks come to rest some time after the request was answered."),
        *_group("A rebalance does not wake it."),
    ),
    "Resume Connector": _tasks("Connector and tasks go on, likewise."),
    "Restart Connector": _group("`forward` tells a worker whether it may pass the request on."),
    "Restart Task": _group(
        "While the cluster rebalances nothing happens.",
        "`forward` tells a worker whether it may pass the request on.",
    ),
    "Pause/resume Connector": (
        *_tasks("Each task changes its state, and reports it, when it comes to that."),
        *_group("What is asked during a rebalance is obeyed behind it."),
    ),
    "Restart Tasks": _group(
        "During a rebalance a restart is refused, so that it may be tried again.",
        "The request goes to the leader first, and from there to whoever has the task.",
        "Who has the task answers, and begins the restart.",
        "A request that comes from the leader is never passed back: who has not got the task says "
        "so, and the leader deals with that.",
    ),
    "Compatibility, Deprecation, and Migration Plan": _tasks(
        "When all workers are upgraded, what was paused meanwhile comes to rest."
    ),
}

_KIP_558: Sections = {
    "Format of the new status record": _tasks(
        "A task that sees for the first time that a topic is used writes such a record."
    ),
    "Recording active topics": _tasks(
        "From the first record on, the topic of each record that a task handles is looked at.",
        "A topic that is not in the set yet is noted.",
        "One that is in the set, by whoever's record, is not noted again.",
        "Workers that find it out at the same time may each note it.",
    ),
    "Resetting a connector's set of active topics": _tasks(
        "Soon after a reset the tasks have noted again what they still use."
    ),
    "Restarting, reconfiguring or deleting a connector": _tasks(
        "A deletion empties the set, even where nobody may ask for a reset.",
        "It does so as far as the workers ended the connector in good order.",
    ),
    "Configuration": _tasks("Where tracking is off, nothing is noted."),
}

_KIP_875: Sections = {
    "Offsets endpoints behavior": _group("While a rebalance is pending a reset is refused."),
    "Background: target states today": (
        *_tasks("Tasks that are paused keep their clients, converters and connections."),
        *_group("Connectors and tasks are assigned whatever their target state is."),
    ),
    "A new STOPPED state": (
        *_tasks(
            "All tasks end, and give back all they had.",
            "The connector's own stop is called, and what was allocated for it is freed.",
            "Its worker reports STOPPED, also if it had failed, or fails by being stopped.",
            "The connector is not started, and cannot ask for other tasks.",
            "Resumed or paused, it is started and says which tasks it wants; that it is so for "
            "both is what the KIP has and releases have not.",
            "A standalone worker begins the tasks at once.",
        ),
        *_group(
            "The rebalance behind a stop gives nobody a task of it.",
            "The connector itself is given to some worker all the same.",
            "A new task set makes the group rebalance.",
        ),
    ),
    "Compatibility, Deprecation, and Migration Plan": _tasks(
        "A worker of an older release pauses what it has of a stopped connector."
    ),
    "Test Plan": _tasks(
        "Offsets: what is shown of a running source and sink has come as far as it must.",
        "Stopped: a connector that had failed is shown as STOPPED, by its worker's own report.",
        "Stopped: so is one that fails while it is being stopped.",
        "Stopped: resumed after either failure, its tasks run again.",
    ),
}

_KIP_910: Sections = {
    "Public Interfaces": _tasks(
        "A task is asked for offsets before those that it has produced are committed.",
        "It may add offsets of partitions that are not among them.",
        "A partition that it leaves away is committed all the same.",
        "A partition to which it gives null gets a tombstone.",
        "A task that has no such method changes nothing.",
    ),
    "Proposed Changes": _tasks(
        "It is shown the latest offset of each partition, as it is about to be committed; not what "
        "the last poll has brought.",
        "An offset that it changes is the one that is committed.",
        "An empty map changes nothing.",
    ),
    "Exactly Once Support- Disabled": _tasks(
        "It is asked with every scheduled commit.",
        "Only partitions of which a record has been acknowledged are committed.",
        "What the task returns counts as acknowledged.",
        "It is asked only if the last poll brought nothing, or all of it is done, or at first.",
    ),
    "Exactly Once Support- Enabled": _tasks(
        "It is asked just before the offsets of a transaction are flushed, and shown those alone.",
        "What it returns is part of the same transaction.",
        "Where the connector says itself when transactions end, it is not asked without records.",
    ),
    "Migration Plan and Compatibility": _tasks(
        "A connector with that method runs in older releases, which never call it."
    ),
}

_KIP_995: Sections = {
    "Public Interfaces": _tasks(
        "The JSON file of a connector, given to a standalone worker, may have the field, too."
    ),
    "Validate offset before connector creation": _group(
        "Another worker may create the connector after the offsets have been checked."
    ),
    "Test Plan": _tasks("A standalone worker takes the field from a JSON file."),
}

LATER: Mapping[str, Sections] = {
    "KIP-52": _KIP_52,
    "KIP-558": _KIP_558,
    "KIP-875": _KIP_875,
    "KIP-910": _KIP_910,
    "KIP-995": _KIP_995,
}

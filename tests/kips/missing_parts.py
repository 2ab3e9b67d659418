"""Sentences of the KIPs that cannot be tested yet, each with the part that is missing.

A row is one sentence in our words, by KIP and section. `test_missing_parts` fails once a missing
part exists: its rows then become tests.
"""

from collections.abc import Mapping
from enum import Enum
from typing import NamedTuple


class MissingPart(Enum):
    """Missing part of the control plane."""

    GROUP = "workers that form a group: who leads, who has which task, rebalances"


class Later(NamedTuple):
    """A sentence, and the missing part that its test needs."""

    says: str
    needs: MissingPart


def _group(*sentences: str) -> tuple[Later, ...]:
    return tuple(Later(says, MissingPart.GROUP) for says in sentences)


Sections = Mapping[str, tuple[Later, ...]]

_KIP_52: Sections = {
    "Pause connector": _group("A paused connector stays paused in a rebalance."),
    "Restart Connector": _group("`forward` tells a worker whether it may pass the request on."),
    "Restart Task": _group(
        "During a rebalance no task is restarted.",
        "`forward` tells a worker whether it may pass the request on.",
    ),
    "Pause/resume Connector": _group(
        "Workers pause or resume after a rebalance if the request came during it."
    ),
    "Restart Tasks": _group(
        "During a rebalance a restart is refused; the client can repeat it.",
        "The request goes to the leader, which forwards it to the worker of the task.",
        "The worker of the task begins the restart and answers.",
        "A worker never forwards a request of the leader: without the task, it answers 404.",
    ),
}

_KIP_558: Sections = {
    "Recording active topics": _group(
        "Workers that use a new topic at the same time may each write its record.",
    ),
    "Restarting, reconfiguring or deleting a connector": _group(
        "A deletion empties the set, unless a worker ended without stopping the connector.",
    ),
}

_KIP_875: Sections = {
    "Offsets endpoints behavior": _group("While a rebalance is pending a reset is refused."),
    "Background: target states today": _group(
        "The leader assigns connectors and tasks in any target state."
    ),
    "A new STOPPED state": _group(
        "The rebalance after a stop assigns no task of the connector.",
        "A rebalance still assigns the stopped connector itself to a worker.",
        "A new task set makes the group rebalance.",
    ),
}

_KIP_995: Sections = {
    "Validate offset before connector creation": _group(
        "Another worker may create the connector after the offsets have been checked."
    ),
}

LATER: Mapping[str, Sections] = {
    "KIP-52": _KIP_52,
    "KIP-558": _KIP_558,
    "KIP-875": _KIP_875,
    "KIP-995": _KIP_995,
}

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
    "Pause connector": _group("A rebalance does not wake it."),
    "Restart Connector": _group("`forward` tells a worker whether it may pass the request on."),
    "Restart Task": _group(
        "While the cluster rebalances nothing happens.",
        "`forward` tells a worker whether it may pass the request on.",
    ),
    "Pause/resume Connector": _group("What is asked during a rebalance is obeyed behind it."),
    "Restart Tasks": _group(
        "During a rebalance a restart is refused, so that it may be tried again.",
        "The request goes to the leader first, and from there to whoever has the task.",
        "Who has the task answers, and begins the restart.",
        "A request that comes from the leader is never passed back: who has not got the task says "
        "so, and the leader deals with that.",
    ),
}

_KIP_558: Sections = {
    "Recording active topics": _group(
        "Workers that find it out at the same time may each note it.",
    ),
    "Restarting, reconfiguring or deleting a connector": _group(
        "A deletion empties the set as far as the workers ended the connector in good order.",
    ),
}

_KIP_875: Sections = {
    "Offsets endpoints behavior": _group("While a rebalance is pending a reset is refused."),
    "Background: target states today": _group(
        "Connectors and tasks are assigned whatever their target state is."
    ),
    "A new STOPPED state": _group(
        "The rebalance behind a stop gives nobody a task of it.",
        "The connector itself is given to some worker all the same.",
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

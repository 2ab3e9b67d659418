"""What captures came to, shown."""

from collections.abc import Sequence
from typing import Any

from controlplane.core.safe_text import count
from replay.capture.capture import Captured
from replay.cli.printing import print_json, say, table

TOPICS_SHOWN = 5
"""Topics that are not the cluster's own: of a dump worth a word, of a broker with hundreds not."""


def print_captured(captured: Sequence[Captured], output: str) -> None:
    """Print what was added to which cluster, what it lacks, and its head."""
    if output == "json":
        print_json([_document(one) for one in captured])
        return
    table(("CLUSTER", "READ", "ADDED", "ARCHIVED", "HEAD"), [_row(one) for one in captured])
    for one in captured:
        for gap in one.cluster.gaps:
            say(f"{one.cluster.name}: {gap.sentence}", style="yellow")
        if 0 < len(one.left_out) <= TOPICS_SHOWN:
            topics = ", ".join(one.left_out)
            say(f"{one.cluster.name}: not archived, for no connector names it: {topics}")


def _row(one: Captured) -> tuple[str, ...]:
    records = count(one.records, "record")
    return (one.cluster.name, str(one.read), str(one.added), records, one.cluster.chain.head)


def _document(one: Captured) -> dict[str, Any]:
    return {
        "cluster": one.cluster.name,
        "read": one.read,
        "added": one.added,
        "archived": one.records,
        "ends": one.cluster.ends,
        "head": one.cluster.chain.head,
        "gaps": [gap.sentence for gap in one.cluster.gaps],
        "left_out": list(one.left_out),
    }

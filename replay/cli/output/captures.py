"""Output of captures."""

from collections.abc import Sequence
from typing import Any

from controlplane.core.text.safe_text import count
from replay.capture.log_capture import CaptureResult
from replay.cli.output.printer import print_json, say, table

TOPICS_SHOWN = 5
"""Greatest number of other topics to print: a dump has few, a broker may have hundreds."""


def print_captured(captured: Sequence[CaptureResult], output: str) -> None:
    """Print added records, gaps and the head of each cluster."""
    if output == "json":
        print_json([_document(one) for one in captured])
        return
    table(("CLUSTER", "READ", "ADDED", "ARCHIVED", "HEAD"), [_row(one) for one in captured])
    for one in captured:
        for gap in one.cluster.gaps:
            say(f"{one.cluster.name}: {gap.sentence}", style="yellow")
        if 0 < len(one.left_out) <= TOPICS_SHOWN:
            topics = ", ".join(one.left_out)
            say(f"{one.cluster.name}: not archived, because no connector names them: {topics}")


def _row(captured: CaptureResult) -> tuple[str, ...]:
    records = count(captured.records, "record")
    return (
        captured.cluster.name,
        str(captured.read),
        str(captured.added),
        records,
        captured.cluster.chain.head,
    )


def _document(captured: CaptureResult) -> dict[str, Any]:
    return {
        "cluster": captured.cluster.name,
        "read": captured.read,
        "added": captured.added,
        "archived": captured.records,
        "ends": captured.cluster.ends,
        "head": captured.cluster.chain.head,
        "gaps": [gap.sentence for gap in captured.cluster.gaps],
        "left_out": list(captured.left_out),
    }

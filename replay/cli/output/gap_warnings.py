"""Output of gaps (offsets lost before they were archived), and of doubts due to missing offsets."""

from collections.abc import Mapping, Sequence

from controlplane.terminal.output import note
from replay.doubts import AnswerDoubts, DoubtKind

SHOWN = 5
"""Gaps or doubts printed per cluster. `replay timeline -o json` has all of both."""


def tell_gaps(gaps: Mapping[str, Sequence[str]]) -> None:
    """Print the gaps of each cluster to standard error."""
    for cluster, sentences in gaps.items():
        for sentence in sentences[:SHOWN]:
            note(f"{cluster}: {sentence}")
        if len(sentences) > SHOWN:
            ending = f"… and {len(sentences) - SHOWN} more gaps; `replay verify -o json` has all"
            note(f"{cluster}: {ending}")


def tell_doubts(doubts: Mapping[str, Sequence[AnswerDoubts]]) -> None:
    """Print the doubts of each cluster, and its earliest certain moments, to standard error.

    Doubts of kind `DERIVED` are left out: they concern only facts that need earlier records. A
    cluster that uses transactions always has such doubts. JSON has them, too.
    """
    for cluster, answers in doubts.items():
        every = dict.fromkeys(doubt for answer in answers for doubt in answer.doubts)
        grave = [doubt.sentence for doubt in every if doubt.kind is not DoubtKind.DERIVED]
        for sentence in grave[:SHOWN]:
            note(f"{cluster}: {sentence}")
        if len(grave) > SHOWN:
            number = len(grave) - SHOWN
            ending = f"… and {number} more like these; `replay timeline -o json` has all"
            note(f"{cluster}: {ending}")
        for sentence in dict.fromkeys(answer.certain_sentence for answer in answers):
            if sentence:
                note(f"{cluster}: {sentence}")

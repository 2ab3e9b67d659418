"""Output of gaps (offsets lost before they were archived), and of doubts due to missing offsets."""

from collections.abc import Mapping, Sequence

from controlplane.terminal.output import note
from replay.doubts import AnswerDoubts, doubt_sentences, gap_sentences


def tell_gaps(gaps: Mapping[str, Sequence[str]]) -> None:
    """Print the gaps of each cluster to standard error."""
    tell({cluster: gap_sentences(sentences) for cluster, sentences in gaps.items()})


def tell_doubts(doubts: Mapping[str, Sequence[AnswerDoubts]]) -> None:
    """Print the doubts of each cluster, and its earliest certain moments, to standard error.

    JSON also has the doubts that `doubt_sentences` leaves out.
    """
    tell({cluster: doubt_sentences(answers) for cluster, answers in doubts.items()})


def tell(sentences_by_cluster: Mapping[str, Sequence[str]]) -> None:
    """Print the sentences about each cluster to standard error."""
    for cluster, sentences in sentences_by_cluster.items():
        for sentence in sentences:
            note(f"{cluster}: {sentence}")

"""Warnings of the Python API about answers that are not certain."""

import warnings
from collections.abc import Iterable, Sequence

from replay.doubts import AnswerDoubts, UncertainAnswer, doubt_sentences, gap_sentences
from replay.engine.plans.read_plan import ReadPlan


def warn_of_doubts(cluster: str, gaps: Sequence[str], answers: Sequence[AnswerDoubts]) -> None:
    """Warn once of all gaps and doubts of a cluster, if there are any."""
    sentences = [*gap_sentences(gaps), *doubt_sentences(answers)]
    if sentences:
        warning = UncertainAnswer("\n".join(f"{cluster}: {sentence}" for sentence in sentences))
        # `warnings.warn` would show a repeated warning once: a second query would be silent.
        warnings.warn_explicit(warning, UncertainAnswer, "replay", 1)


def warn_of_plans(plans: Iterable[ReadPlan]) -> None:
    """Warn of the gaps and doubts of plans, once per cluster."""
    plans_of: dict[str, list[ReadPlan]] = {}
    for plan in plans:
        plans_of.setdefault(plan.cluster, []).append(plan)
    for cluster, several in plans_of.items():
        gaps = dict.fromkeys(gap.sentence for plan in several for gap in plan.gaps)
        warn_of_doubts(cluster, [*gaps], [plan.answer_doubts for plan in several if plan.doubts])

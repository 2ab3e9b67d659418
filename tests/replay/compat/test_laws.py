"""Laws of assessments of any log and any release change."""

import json

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controlplane.core.entry import Entry
from controlplane.core.fold import fold
from controlplane.core.order import in_order
from controlplane.core.releases.profiles import PROFILES, Profile
from controlplane.core.state import Topics
from controlplane.core.views.diff import diff
from replay.compat import ReleaseVerdict, RolloutMode, assess, assess_each, roll
from replay.compat.assessment_report import ReportedAssessment, reported
from replay.compat.report_formats import document, junit
from tests.conftest import FEWER_EXAMPLES, examples
from tests.laws.entries import logs

pytestmark = pytest.mark.slow

ANY = st.sampled_from(PROFILES)


@settings(max_examples=FEWER_EXAMPLES)
@given(log=logs(), start=ANY, goal=ANY, rolling=st.booleans(), exactly_once=st.booleans())
def test_no_bytes_end_an_assessment(
    log: list[Entry], start: Profile, goal: Profile, *, rolling: bool, exactly_once: bool
) -> None:
    """An assessment of any bytes can be serialised, and its evidence exists in the log."""
    change = roll(start, goal, RolloutMode.ROLLING if rolling else None)
    assessment = assess(log, change, exactly_once=exactly_once)
    positions = {entry.position for entry in log}
    assert all({*finding.evidence} <= positions for finding in assessment.findings)
    shown = reported(assessment, Topics())
    assert document([shown])["verdict"] == assessment.verdict.words
    assert junit([shown]).count("<testcase ") == len(assessment.assessed)
    kept = json.loads(json.dumps(msgspec.to_builtins(shown, str_keys=True)))
    assert msgspec.convert(kept, ReportedAssessment, str_keys=True) == shown


@settings(max_examples=FEWER_EXAMPLES)
@given(log=logs(), start=ANY, goal=ANY, exactly_once=st.booleans())
def test_every_divergence_is_reported(
    log: list[Entry], start: Profile, goal: Profile, *, exactly_once: bool
) -> None:
    """The assessment has exactly the divergences of the two folds, and no verdict hides one.

    With a divergence that is more than information, the verdict is not COMPATIBLE.
    """
    assessment = assess(log, roll(start, goal), exactly_once=exactly_once)
    divergences = [divergence for each in assessment.assessed for divergence in each.divergences]
    before, after = (
        fold(
            in_order(log),
            profile,
            exactly_once=exactly_once and profile.exactly_once_support,
            trace=True,
        )
        for profile in (start, goal)
    )
    assert [divergence.change for divergence in divergences] == diff(before, after)
    worst = max((divergence.severity.value != "info" for divergence in divergences), default=False)
    assert not worst or assessment.verdict is not ReleaseVerdict.COMPATIBLE


@settings(max_examples=examples(20, proved=1_000))
@given(
    log=logs(),
    start=ANY,
    goals=st.lists(ANY, max_size=8),
    rolling=st.booleans(),
    exactly_once=st.booleans(),
)
def test_assessments_together_equal_assessments_alone(
    log: list[Entry], start: Profile, goals: list[Profile], *, rolling: bool, exactly_once: bool
) -> None:
    """Releases that share the work have the same assessments as alone."""
    mode = RolloutMode.ROLLING if rolling else None
    changes = [
        change for goal in goals for change in (roll(start, goal, mode), roll(goal, start, mode))
    ]
    together = list(assess_each(log, changes, exactly_once=exactly_once))
    assert together == [assess(log, change, exactly_once=exactly_once) for change in changes]

"""Cost of assessments: linear in records, and nearly independent of the number of releases."""

from collections.abc import Callable

import pytest

from controlplane.core.entry import Entry
from controlplane.core.order import in_order
from controlplane.core.releases.profiles import RELEASES, Profile, release_line
from replay.compat import ReleaseChange, assess_each, roll
from tests.operation_counts import assert_linear, operations
from tests.replay.compat.planted_log import OFFSETS, running

pytestmark = pytest.mark.slow

START = Profile.of("3.9")
LINES = {release_line(release): Profile.of(release) for release in RELEASES}
SINCE_2_8 = [profile for line, profile in LINES.items() if line == "2.8" or line[0] in "34"]


def moving(offsets: int, *, reset: bool = False) -> list[Entry]:
    """Log of a source with this number of partitions, each with three offsets.

    With `reset`, the offset of one partition is removed: releases before 3.5 keep its key.
    """
    log = running()
    for position in range(3):
        for partition in range(offsets):
            log.put(OFFSETS, f'["a",{{"p":{partition}}}]', {"position": position})
    if reset:
        log.put(OFFSETS, '["a",{"p":0}]', None)
    return in_order(log.entries)


def assessing(entries: list[Entry], changes: list[ReleaseChange]) -> Callable[[], object]:
    """Work: all assessments of a log."""
    return lambda: list(assess_each(entries, changes))


@pytest.mark.parametrize("reset", [False, True])
def test_a_further_release_costs_little(*, reset: bool) -> None:
    """The assessment for each release line costs less than twice that of one change."""
    entries = moving(1000, reset=reset)
    single, all_lines = (
        operations(assessing(entries, [roll(START, goal) for goal in goals]))
        for goals in ([LINES["2.8"]], SINCE_2_8)
    )
    assert len(SINCE_2_8) > 10
    assert all_lines < 2 * single, f"one release: {single} operations, all lines: {all_lines}"


def test_the_cost_is_linear_in_offsets() -> None:
    """Twice the offsets take twice the operations."""
    changes = [roll(START, goal) for goal in SINCE_2_8]
    assert_linear(lambda offsets: assessing(moving(offsets), changes), 50)

"""Merges of an archive: fewer files, the same answers, and earlier heads that stay verifiable.

A look is a capture up to the end of the log. A head is the hash of the last manifest.
"""

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from controlplane.core.entry import Entry
from controlplane.core.state import Topics
from replay.archive.segments.segment_files import SegmentSizes
from replay.archive.verification import verified
from tests.conftest import PROVE, examples
from tests.laws.entries import logs
from tests.recorded_requests import recorded_entries
from tests.replay.archive.archives import archive, capture, cluster_in, lasting_days, log_of
from tests.replay.archive.merges import LARGER, looks, merge_answers, merged, states_at

pytestmark = pytest.mark.slow

EXAMPLES = examples(4, proved=500)
PHASES = [*Phase] if PROVE else [Phase.explicit, Phase.reuse, Phase.generate]

HISTORY = "life-3.9"
LOOKS = 20 if PROVE else 12
SIZES = st.sampled_from([SegmentSizes(10, 4), LARGER, SegmentSizes()])


def moments(log: list[Entry]) -> Iterator[str | None]:
    """Yield moments: the end, each record of the config topic, and the time of each record."""
    yield None
    for entry in log:
        if entry.topic == Topics().config:
            yield f"config@{entry.offset}"
        yield str(entry.timestamp)


@settings(max_examples=EXAMPLES, phases=PHASES)
@given(logs(), st.lists(st.none() | SIZES, min_size=1, max_size=6), st.data())
def test_merges_change_no_answer(
    log: list[Entry], plan: list[SegmentSizes | None], data: st.DataObject
) -> None:
    """Random looks with merges between them give the same answers as these looks without merges."""
    log = [entry for entry in log if entry.topic != "own"]
    with TemporaryDirectory() as plain_folder, TemporaryDirectory() as small_folder:
        plain, small = Path(plain_folder), Path(small_folder)
        heads = []
        looked_at = 0
        for sizes in [*plan, LARGER]:
            looked_at = data.draw(st.integers(looked_at, len(log)))
            capture(plain, log_of(log[:looked_at]))
            capture(small, log_of(log[:looked_at]))
            heads.append(cluster_in(small).chain.head)
            if sizes is not None:
                merged(small, sizes)
        before, after = cluster_in(plain), cluster_in(small)
        assert len(after.chain.manifests) == 1
        for moment in data.draw(st.lists(st.sampled_from([*moments(log[:looked_at])]), max_size=4)):
            assert states_at(after, moment) == states_at(before, moment)
        if any(part.segments for part in before.parts.values()):
            assert merge_answers(after) == merge_answers(before)
        result = verified(after)
        assert (result.flaws, result.leftovers, result.replaced, result.unproven) == ((), (), 0, 0)
        assert {*heads} <= {*result.earlier_heads, result.head}


@pytest.mark.slow
def test_recorded_clusters_have_the_same_answers(tmp_path: Path) -> None:
    """A merge of many looks changes no answer; the recorded history is stretched to 17 days."""
    entries = lasting_days(recorded_entries(HISTORY))
    looks(tmp_path / "small", entries, LOOKS)
    before = archive(tmp_path / "one", entries)
    result, removal = merged(tmp_path / "small")
    after = cluster_in(tmp_path / "small")
    assert len(list(after.snapshots)) > 10
    assert (result.manifests, result.merged) == ((LOOKS, 1), True)
    assert result.segments[1] * 5 < result.segments[0]
    assert removal.removed > 100
    for moment in [*moments(entries)][:: 40 if PROVE else 320]:
        assert states_at(after, moment) == states_at(before, moment)
    assert merge_answers(after) == merge_answers(before)

"""Gaps: records removed before they were archived. Answers about a later moment report them."""

from pathlib import Path

import pytest

from controlplane.core.entry import Entry
from replay.doubts import SHOWN
from replay.engine.ordered_records import missing
from replay.gaps import OffsetGap
from tests.recorded_requests import recorded_entries
from tests.replay.archive.archives import NAME, capture, cluster_in, log_of
from tests.replay.cli.replay_calls import call
from tests.replay.report.page_reader import read

pytestmark = pytest.mark.slow

CONFIG = "connect-configs"
LOST, COMPACTED = range(10, 20), range(30, 32)
SENTENCE = f"{CONFIG} partition 0: offsets 10 to 19 had been removed before they were archived"
LIFE = recorded_entries("life-3.9")


def without(lost: range) -> list[Entry]:
    """Log without some of its configs."""
    return [entry for entry in LIFE if entry.topic != CONFIG or entry.offset not in lost]


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Archive of a cluster with one gap, and of the cluster `roll` without gaps.

    Compaction also removed records of the first cluster, which is no gap.
    """
    folder = tmp_path_factory.mktemp("gaps") / "archive"
    capture(folder, log_of(without(range(LOST.start, len(LIFE)))))
    kept = [entry for entry in without(range(LOST.stop)) if entry.offset not in COMPACTED]
    capture(folder, log_of(kept))
    capture(folder, log_of(recorded_entries("roll-3.4-3.9-3.4")), name="roll")
    return folder


def at(offset: int, ms: int = 0) -> str:
    """Timestamp of a config record, plus some milliseconds."""
    (entry,) = (entry for entry in LIFE if (entry.topic, entry.offset) == (CONFIG, offset))
    return str(entry.timestamp + ms)


def vector(end: int) -> str:
    """Vector with the end offset of the config topic alone."""
    return f'{{"{CONFIG}":[{end}]}}'


# --- gaps before a moment -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("moment", "is_reported"),
    [
        (None, True),
        (vector(LOST.start), False),
        (vector(LOST.start + 1), True),
        (vector(LOST.stop), True),
        (f"config@{LOST.start - 1}", False),
        (f"config@{LOST.stop}", True),
        (at(LOST.start - 1, -1), False),
        (at(LOST.start - 1), True),
        (at(LOST.stop), True),
    ],
)
def test_a_time_reports_the_gap_before_it(
    archive: Path, moment: str | None, *, is_reported: bool
) -> None:
    """Every gap with lost records that precede the moment, or may precede it, is reported.

    A moment is a record (`config@9`), a vector of end offsets, or a timestamp; None: the end. A
    timestamp also reports the gap directly after the last record that is not later than it. The
    timestamps of the lost records are unknown and may be earlier.
    """
    gaps = missing(cluster_in(archive), moment)
    assert gaps == ((OffsetGap(CONFIG, 0, LOST),) if is_reported else ())


def test_a_record_bounds_no_times_of_other_partitions(tmp_path: Path) -> None:
    """Lost statuses may precede `config@1`: only statuses around them limit their timestamps."""
    configs = [Entry(CONFIG, 0, number, 10 * number, b"k", b"v") for number in range(4)]
    statuses = [Entry("connect-status", 0, number, 10 * number, b"k", b"v") for number in (0, 3)]
    capture(tmp_path, log_of([*configs, statuses[0]]))
    capture(tmp_path, log_of([*configs, statuses[1]]))
    cluster, gap = cluster_in(tmp_path), OffsetGap("connect-status", 0, range(1, 3))
    gaps_by_moment = {
        moment: missing(cluster, moment) for moment in ("config@0", "status@0", "config@1")
    }
    assert gaps_by_moment == {"config@0": (), "status@0": (), "config@1": (gap,)}


# --- commands that report gaps ------------------------------------------------------------------

CLUSTERS, LISTS = {NAME: [SENTENCE]}, [SENTENCE]
"""Gaps in JSON: by cluster, or as a list where each cluster has a document."""

COMMANDS = [
    (("state",), LISTS),
    (("timeline",), LISTS),
    (("timeline", "--digests"), LISTS),
    (("history", "--connector", "orders", "--profile", "3.4", "--profile", "3.9"), LISTS),
    (("diff", "--from", "config@5"), CLUSTERS),
    (("diff", "--profile", "3.4", "--to-profile", "3.9"), CLUSTERS),
    (("audit",), CLUSTERS),
    (("compat", "--from", "3.4", "--to", "3.9"), CLUSTERS),
    (("lint", "--release", "3.9"), CLUSTERS),
]


@pytest.mark.parametrize(("words", "gaps"), COMMANDS)
def test_every_command_reports_a_gap(archive: Path, words: tuple[str, ...], gaps: object) -> None:
    """Each command reports a gap once on standard error and in JSON, but no gap after `--as-of`."""
    command, *rest = words
    for output in ("table", "json"):
        words_before_moment = (command, archive, "--cluster", NAME, *rest, "-o", output, "--as-of")
        later, earlier = (
            call(*words_before_moment, vector(15)),
            call(*words_before_moment, "config@9"),
        )
        assert later.err.splitlines().count(f"{NAME}: {SENTENCE}") == 1
        assert "removed" not in earlier.err
    (late, before) = (
        result.json if type(result.json) is dict else result.json[0] for result in (later, earlier)
    )
    assert (late["gaps"], before["gaps"]) == (gaps, type(gaps)())


def test_clusters_without_gaps_are_not_reported(archive: Path) -> None:
    """Standard error has one line: the gap of the only cluster that has one."""
    for words in (("state",), ("lint", "--release", "3.9", "--jobs", "2")):
        command, *rest = words
        assert call(command, archive, *rest).err.splitlines() == [f"{NAME}: {SENTENCE}"]


def test_kept_answers_still_report_gaps(archive: Path, tmp_path: Path) -> None:
    """An answer that `--resume` has kept still reports the gap."""
    words = ("lint", archive, "--release", "3.9", "--resume", tmp_path)
    assert call(*words) == call(*words)
    assert SENTENCE in call(*words).err


def test_many_gaps_are_counted(tmp_path: Path) -> None:
    """Standard error has the first gaps and the number of the others; JSON has all gaps."""
    number = SHOWN + 3
    for offset in range(0, 2 * number + 1, 2):
        capture(tmp_path, log_of([Entry(CONFIG, 0, offset, offset, b"k", b"v")]))
    result = call("state", tmp_path, "-o", "json")
    lines = result.err.splitlines()
    assert lines[0].endswith("partition 0: offset 1 had been removed before they were archived")
    assert lines[-1] == f"{NAME}: … and 3 more gaps; `replay verify -o json` has all"
    assert (len(lines), len(result.json[0]["gaps"])) == (SHOWN + 1, number)


def test_a_page_shows_gaps_beside_the_read_records(archive: Path, tmp_path: Path) -> None:
    """The page names the records before and after each gap."""
    file, words = tmp_path / "page.html", ("report", archive, "--cluster", NAME, "--towards", "4.3")
    result = call(*words, "--to", file)
    unknown = f"{CONFIG} partition 0: the state between offset 29 and offset "
    lines = result.err.splitlines()
    assert (lines[0], lines[1].startswith(f"{NAME}: {unknown}")) == (f"{NAME}: {SENTENCE}", True)
    shown = read([file.read_text(encoding="utf-8")])
    missing_, other, *_ = shown.by_id("c0-read").all("li")
    assert missing_.text.startswith(SENTENCE)
    assert other.text.startswith(unknown)
    beside = [shown.by_id((link.attributes["href"] or "")[1:]) for link in missing_.all("a")]
    assert [next(row.all("code")).text for row in beside] == ["config@9", "config@20"]
    call(*words, "--to", file, "--as-of", "config@9")
    assert "removed" not in read([file.read_text(encoding="utf-8")]).text

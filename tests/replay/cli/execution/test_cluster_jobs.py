"""`audit`, `compat` and `lint` over archives of many clusters."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pyarrow.parquet as pq
import pytest

from controlplane.core.state import Topics
from controlplane.terminal.exit_codes import INTERRUPTED
from replay.archive.segments.segment_files import SIZES
from replay.cli.execution.cluster_jobs import ClusterJob, JobOptions, run_for_each_cluster
from replay.cli.inputs.archived_logs import clusters_of
from replay.cli.inputs.log_input import ReadOptions
from replay.cluster_records import ClusterRecords
from replay.engine.executors import ProcessExecutor
from tests.conftest import paired, sampled
from tests.file_modes import exposed, modes
from tests.recorded_requests import HISTORIES, recorded_entries
from tests.replay.archive.archives import capture, log_of
from tests.replay.cli.replay_calls import call, content, refusal, started, wait_for
from tests.replay.compat.planted_log import Planted, running, stopped

pytestmark = pytest.mark.slow

LIFE = HISTORIES / "life-3.9.log.jsonl"
ROLL = HISTORIES / "roll-3.4-3.9-3.4.log.jsonl"
CLUSTERS = ("east", "north", "west")


def quiet() -> Planted:
    """Paused connector whose tasks are older than its config: 3.9 may drop them."""
    return running().target("a", {"state": "PAUSED"}).config("a", rows="2")


def add(folder: Path, name: str, log: Planted) -> None:
    """Archive the records of a log that the archive lacks."""
    capture(folder, log_of(log.entries), name=name)


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three clusters: two are compatible, and `north` needs preparation for 3.9."""
    folder = tmp_path_factory.mktemp("sound")
    for name, log in zip(CLUSTERS, (stopped(), quiet(), running()), strict=True):
        add(folder, name, log)
    return folder


@pytest.fixture
def fleet(sound: Path, tmp_path: Path) -> Path:
    """Copy of the three clusters, which a test may change."""
    return shutil.copytree(sound, tmp_path / "fleet")


LINT = ("lint", "--release", "3.9")
AUDIT = ("audit", "--release", "3.9")
COMPAT = ("compat", "--from", "3.4", "--to", "3.9")


def test_only_the_owner_reads_an_archive_or_a_report(tmp_path: Path) -> None:
    """Only the owner may read archives, reports and results: they contain configs with secrets."""
    umask = os.umask(0)
    try:
        assert call("capture", f"life={LIFE}", tmp_path / "archive", "--once").code == 0
        report_options = ("--to", tmp_path / "page.html", "--resume", tmp_path / "kept" / "results")
        (tmp_path / "page.html").touch(0o666)
        assert call("report", tmp_path / "archive", *report_options).code == 0
        parquet = ("-o", "parquet", "--to", tmp_path / "states.parquet")
        assert call("state", tmp_path / "archive", *parquet).code == 0
    finally:
        os.umask(umask)
    assert len(modes(tmp_path)) > 10
    assert exposed(tmp_path) == []


def test_a_given_file_mode_applies_to_archives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`CONTROLPLANE_FILE_MODE` sets the mode; an invalid value is one error sentence."""
    monkeypatch.setenv("CONTROLPLANE_FILE_MODE", "0640")
    assert call("capture", f"life={LIFE}", tmp_path / "archive", "--once").code == 0
    assert set(modes(tmp_path / "archive").values()) == {0o640, 0o750}
    monkeypatch.setenv("CONTROLPLANE_FILE_MODE", "everybody")
    message = refusal(call("capture", f"life={LIFE}", tmp_path / "other", "--once"))
    assert "CONTROLPLANE_FILE_MODE is 'everybody'" in message


# --- selected clusters --------------------------------------------------------------------------


def test_the_table_has_all_clusters_and_a_summary(fleet: Path) -> None:
    """The table has a row per cluster and a summary; the worst cluster sets the exit code."""
    result = call(*COMPAT, fleet)
    assert result.code == 1
    rows = [line.split() for line in result.out.splitlines()]
    assert ["north", "needs", "preparation", "0", "1", "0", "1"] in rows
    assert ["west", "compatible", "1", "0", "0", "0"] in rows
    assert result.out.endswith("3 clusters: 1 needs preparation, 2 compatible\n")


@pytest.mark.parametrize(("words", "code"), [(LINT, 1), (AUDIT, 0)])
def test_findings_are_counted_by_cluster(words: tuple[str, ...], code: int, fleet: Path) -> None:
    """The counts include clusters without findings."""
    result = call(*words, fleet)
    assert result.code == code
    heads = ["CLUSTER", "DANGER", "WARNING", "INFO"]
    lines = [line.split() for line in result.out.splitlines()]
    rows = {cells[0]: cells[1:] for cells in lines[lines.index(heads) + 2 :][:3]}
    assert set(rows) == set(CLUSTERS)
    findings = call(*words, fleet, "-o", "json").json["findings"]
    for name, row in rows.items():
        mine = [finding["severity"] for finding in findings if finding["cluster"] == name]
        assert row == [str(mine.count(word)) for word in ("danger", "warning", "info")]


def test_one_cluster_of_an_archive_is_printed_as_a_log(fleet: Path) -> None:
    """The output for one cluster of an archive is that of a log."""
    result = call(*COMPAT, fleet, "--cluster", "west")
    assert (result.code, "north" in result.out, "CLUSTER" in result.out) == (0, False, False)
    assert "no cluster south is archived there (found: east, north, west)" in refusal(
        call(*COMPAT, fleet, "--cluster", "south")
    )


def test_archives_and_logs_can_be_audited_together(fleet: Path, tmp_path: Path) -> None:
    """Each log keeps its name; ambiguous names and options are refused."""
    result = call(*AUDIT, fleet, ROLL, "-o", "json")
    assert result.json["clusters"] == [*CLUSTERS, str(ROLL)]
    for words, sentence in (
        ((fleet, ROLL, "--cluster", "east"), "either logs or clusters of archives"),
        ((fleet, fleet), "two clusters have the name east: read their archives in separate calls"),
        ((fleet, fleet, "--cluster", "west"), "two clusters have the name west: read their"),
        ((fleet, "--config-topic", "ours"), "an archive knows the names of its topics"),
    ):
        result = call(*AUDIT, *words)
        assert result.code == 2
        assert sentence in result.err
    assert call(*AUDIT, f"file://{fleet}", "-o", "json") == call(*AUDIT, fleet, "-o", "json")
    (tmp_path / "empty").mkdir()
    assert "is no archive: create one with `replay capture`" in refusal(
        call(*AUDIT, tmp_path / "empty")
    )


def test_an_archive_knows_topics_of_other_names(tmp_path: Path) -> None:
    """An archive stores its topics' names.

    Positions in the config topic `ours` are printed as `config@OFFSET`, too.
    """
    log = tmp_path / "ours.log.jsonl"
    log.write_text(ROLL.read_text(encoding="utf-8").replace("connect-configs", "ours"))
    call("capture", f"ours={log}", tmp_path / "fleet", "--config-topic", "ours", "--once")
    call("capture", f"theirs={ROLL}", tmp_path / "fleet", "--once")
    findings = call(*AUDIT, tmp_path / "fleet", "-o", "json").json["findings"]
    ours, theirs = (
        [
            (finding["kind"], finding["evidence"])
            for finding in findings
            if finding["cluster"] == name
        ]
        for name in ("ours", "theirs")
    )
    assert [finding for finding in ours if finding in theirs]
    assert any("config@" in place for _, evidence in ours for place in evidence)


# --- a moment -----------------------------------------------------------------------------------


def test_as_of_hides_later_records(tmp_path: Path) -> None:
    """`--as-of` hides later records, in an archive as in a log."""
    call("capture", f"roll={ROLL}", tmp_path / "fleet", "--once")
    for words in (AUDIT, LINT, COMPAT):
        now, then, log = (
            call(*words, *source, "-o", "json", "--cluster", "roll").json
            for source in (
                (tmp_path / "fleet",),
                (tmp_path / "fleet", "--as-of", "config@9"),
                (ROLL, "--as-of", "config@9"),
            )
        )
        assert then == log
        assert (now == then) is (words is LINT)


@pytest.mark.parametrize("archived", [False, True], ids=["log", "archive"])
def test_a_future_moment_is_refused(tmp_path: Path, archived: bool) -> None:
    """A later moment is refused for logs and archives: records before it may still be written."""
    where = ROLL
    if archived:
        where = tmp_path / "fleet"
        call("capture", f"roll={ROLL}", where, "--once")
    for words in (AUDIT, LINT, COMPAT):
        result = call(*words, where, "--as-of", "2199-01-01T00:00:00Z")
        assert result.code == 2, words
        assert "is in the future" in result.err


# --- unreadable clusters ------------------------------------------------------------------------


def test_a_damaged_cluster_hides_no_other(fleet: Path) -> None:
    """A damaged cluster is reported beside the others with exit code 2; alone it is refused."""
    manifest = fleet / "cluster=east" / "_manifest" / "0000000001.json"
    manifest.write_text("{}")
    result = call(*LINT, fleet, "-o", "json")
    assert (result.code, result.json["clusters"]) == (2, ["north", "west"])
    assert list(result.json["failed"]) == ["east"]
    assert "0000000001.json is no manifest" in result.err
    assert "0000000001.json is no manifest" in refusal(call(*LINT, fleet, "--cluster", "east"))


@pytest.mark.parametrize("place", ["_manifest", "topic=connect-configs/partition=0"])
@pytest.mark.parametrize(
    "words", [LINT, AUDIT, COMPAT, ("verify",), ("state",), ("timeline",), ("report",)]
)
def test_unreadable_folders_are_named(
    fleet: Path, words: tuple[str, ...], place: str, tmp_path: Path
) -> None:
    """The error names an unreadable folder; commands still print the other clusters.

    `report` prints no table of clusters.
    """
    folder = fleet / "cluster=east" / place
    folder.rename(tmp_path / "elsewhere")
    folder.symlink_to(folder)  # a loop: not even root can look into it
    output_options = ("--to", tmp_path / "page.html") if words == ("report",) else ()
    result = call(*words, fleet, *output_options)
    assert result.code == 2
    assert f"{folder}" in result.err
    assert "(Too many levels of symbolic links)" in result.err
    if words != ("report",):
        assert "north" in result.out


@pytest.mark.parametrize(
    "words", [("state",), ("timeline",), ("history", "--connector", "a"), ("state", "--explain")]
)
def test_commands_answer_beside_a_damaged_cluster(fleet: Path, words: tuple[str, ...]) -> None:
    """Commands print the clusters with sound manifests and one error.

    Without such clusters they print only the error.
    """
    sound = call(*words, fleet, "--cluster", "north", "--cluster", "west", "-o", "json")
    (fleet / "cluster=east" / "_manifest" / "0000000001.json").write_text("{}")
    result = call(*words, fleet, "-o", "json")
    assert (result.code, result.out) == (2, sound.out)
    assert result.err.count("Error: ") == 1
    assert "cluster=east" in result.err
    assert "cluster=east" in refusal(call(*words, fleet, "--cluster", "east"))


FOLDING = "state", "diff --from config@0", "timeline", "timeline --digests", "history --connector a"


@pytest.mark.parametrize(("command", "jobs"), paired(FOLDING, [1, 2]))
def test_commands_answer_beside_damaged_records(fleet: Path, command: str, jobs: int) -> None:
    """A cluster with damaged records is named by the error; the other clusters are printed."""
    words = command.split()
    sound = call(*words, fleet, "--cluster", "north", "--cluster", "west", "-o", "json")
    _damage_segment(fleet / "cluster=east")
    options = ("-o", "json", "--jobs", jobs)
    result = call(*words, fleet, *options)
    assert (result.code, result.out) == (2, sound.out)
    assert result.err.count("Error: ") == 1
    assert "cluster=east" in result.err
    assert "cluster=east" in refusal(call(*words, fleet, "--cluster", "east", *options))


def test_a_parquet_timeline_has_no_rows_of_a_damaged_cluster(fleet: Path, tmp_path: Path) -> None:
    """The file has all rows of the other clusters, and none of the damaged one."""
    sound, others = tmp_path / "sound.parquet", tmp_path / "others.parquet"
    names = ("--cluster", "north", "--cluster", "west")
    assert call("timeline", fleet, *names, "-o", "parquet", "--to", sound).code == 0
    _damage_segment(fleet / "cluster=east")
    assert call("timeline", fleet, "-o", "parquet", "--to", others).code == 2
    assert pq.read_table(others).equals(pq.read_table(sound))


def _damage_segment(cluster: Path) -> None:
    """Cut the last bytes of the segment of configs."""
    (segment,) = (cluster / "topic=connect-configs").rglob("*.parquet")
    segment.write_bytes(segment.read_bytes()[:-100])


PAGE = "page.html"
ASKED = [
    *(LINT, AUDIT, COMPAT, ("verify",), ("state",), ("timeline",), ("history", "--connector", "a")),
    *(("state", "--explain"), ("report", "--to", PAGE)),
    ("diff", "--profile", "3.4", "--to-profile", "3.9"),
]
"""Commands that read an archive and answer a question about it."""


@pytest.mark.parametrize("words", ASKED, ids=lambda words: " ".join(words[:2]))
def test_a_cluster_without_its_manifests_is_named(
    fleet: Path, words: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cluster without manifests is named, with exit code 2; most commands print the others."""
    monkeypatch.chdir(tmp_path)
    for manifest in (fleet / "cluster=east" / "_manifest").iterdir():
        manifest.unlink()
    result = call(words[0], fleet, *words[1:])
    assert result.code == 2
    assert "cluster=east/_manifest has no manifest: restore" in result.err
    if words[0] not in {"diff", "report"}:
        assert "north" in result.out
    (fleet / "cluster=east" / "_manifest").rmdir()
    assert call(words[0], fleet, *words[1:]) == result
    assert "has no manifest" in refusal(call(words[0], fleet, "--cluster", "east", *words[1:]))


def test_altered_files_are_never_used(fleet: Path) -> None:
    """A segment with one changed bit is refused, because its hash differs."""
    segment = next((fleet / "cluster=east").rglob("segment-*.parquet"))
    whole = bytearray(segment.read_bytes())
    whole[len(whole) // 2] ^= 1
    segment.write_bytes(whole)
    assert "was altered" in refusal(call(*AUDIT, fleet, "--cluster", "east"))


# --- resuming: `--resume` keeps the answer for each finished cluster in a folder ------------------


def forged(folder: Path, cluster: str, sentence: str) -> None:
    """Alter the kept answer for a cluster, so that a test sees its use."""
    (path,) = folder.glob(f"{cluster}-*.json")
    document = json.loads(path.read_bytes())
    document["findings"][0]["sentence"] = sentence
    path.write_text(json.dumps(document))


def test_kept_answers_are_used(fleet: Path, tmp_path: Path) -> None:
    """A kept answer is used while archive, release, moment and `--exactly-once` stay the same."""
    words = (*LINT, fleet, "--resume", tmp_path / "kept")
    first = call(*words)
    assert call(*words) == first
    forged(tmp_path / "kept", "north", "FORGED")
    before = content(fleet)
    assert "FORGED" in call(*words).out
    assert "FORGED" not in call("lint", "--release", "3.8", *words[3:]).out
    assert "FORGED" not in call(*words, "--as-of", "config@4").out
    assert "FORGED" not in call(*words, "--exactly-once").out
    assert content(fleet) == before
    add(fleet, "north", quiet().config("b"))
    assert "FORGED" not in call(*words).out


def test_damaged_kept_answers_are_recomputed(fleet: Path, tmp_path: Path) -> None:
    """A damaged kept answer is computed anew."""
    words = (*LINT, fleet, "--resume", tmp_path / "kept")
    first = call(*words)
    for path in (tmp_path / "kept").iterdir():
        path.write_bytes(path.read_bytes()[:40])
    assert call(*words) == first


def test_clusters_with_long_names_keep_answers(tmp_path: Path) -> None:
    """Clusters whose names have the same first 246 letters keep an answer each."""
    for length in (246, 247):
        add(tmp_path / "fleet", "a" * length, quiet())
    words = (*LINT, tmp_path / "fleet", "--resume", tmp_path / "kept")
    assert [call(*words).code, call(*words).code] == [1, 1]
    assert len([*(tmp_path / "kept").iterdir()]) == 2


@pytest.mark.parametrize("words", [LINT, AUDIT, COMPAT])
def test_kept_answers_give_the_same_output(
    words: tuple[str, ...], fleet: Path, tmp_path: Path
) -> None:
    """Kept answers give the same tables and JSON; a folder that cannot be made is refused."""
    kept = ("--resume", tmp_path / "kept")
    for output in ("table", "json"):
        plain = call(*words, fleet, "-o", output)
        assert plain == call(*words, fleet, *kept, "-o", output)
        assert plain == call(*words, fleet, *kept, "-o", output)
    (tmp_path / "file").write_text("")
    assert "cannot be written" in refusal(
        call(*words, fleet, "--resume", tmp_path / "file" / "below")
    )


@pytest.mark.parametrize("words", sampled([LINT, AUDIT, COMPAT], LINT))
def test_jobs_keep_the_output_order(words: tuple[str, ...], fleet: Path) -> None:
    """The output is the same with `--jobs 2`, also that about a damaged cluster."""
    (fleet / "cluster=east" / "_manifest" / "0000000001.json").write_text("{}")
    alone = call(*words, fleet, "-o", "json")
    assert alone == call(*words, fleet, "-o", "json", "--jobs", "2")
    assert list(alone.json["failed"]) == ["east"]


class InterruptedLooks(msgspec.Struct, frozen=True):
    """Job that answers for two clusters, and raises KeyboardInterrupt for the third."""

    def __call__(self, log: ClusterRecords) -> Topics:
        if log.cluster == "west":
            raise KeyboardInterrupt
        return log.topics


@pytest.mark.parametrize("kept", [True, False])
def test_ctrl_c_keeps_finished_clusters(
    *, kept: bool, fleet: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The message after Ctrl-C has the progress; `--resume` keeps answers for finished clusters."""
    clusters = clusters_of(str(fleet), ReadOptions(Topics(), exactly_once=False, moment=None))
    job: ClusterJob[Any] = ClusterJob("looking", InterruptedLooks(), Topics)
    with pytest.raises(SystemExit) as ended:
        run_for_each_cluster(clusters, job, JobOptions(tmp_path / "kept" if kept else None))
    assert ended.value.code == INTERRUPTED
    assert "interrupted: 2 of 3 clusters done; " in capsys.readouterr().err
    names = {path.name.partition("-")[0] for path in (tmp_path / "kept").glob("*.json")}
    assert names == ({"east", "north"} if kept else set())


@pytest.mark.parametrize("jobs", [pytest.param(1, marks=pytest.mark.prove), 2])
def test_an_interrupted_job_is_resumed(jobs: int, tmp_path: Path) -> None:
    """A real signal interrupts the job; the next run keeps stored results and adds the others."""
    history, names = log_of(recorded_entries("roll-3.4-3.9-3.4")), [f"roll-{n}" for n in range(4)]
    for name in names:
        capture(tmp_path / "fleet", history, name=name, sizes=SIZES)
    kept, page = tmp_path / "kept", tmp_path / "page.html"
    words = ("report", tmp_path / "fleet", "--to", page, "--resume", kept)
    with started(*words, "--jobs", jobs) as process:
        wait_for(kept)
        process.send_signal(signal.SIGINT)
        _, messages = process.communicate()
    assert process.returncode == INTERRUPTED
    done = {name: text for name, text in content(kept).items() if name.endswith(".json")}
    (number,) = re.findall(r"interrupted: (\d) of 4 clusters done; --resume .* continues", messages)
    assert int(number) <= len(done)
    # One job has stored at most one result that it has not yet counted. With several jobs, the
    # other processes still store the results of the clusters that they had begun.
    assert jobs > 1 or len(done) <= int(number) + 1
    assert not page.exists()
    stored_ns = {name: (kept / name).stat().st_mtime_ns for name in done}
    assert call(*words).code == 0
    assert content(kept).items() >= done.items()
    assert stored_ns == {name: (kept / name).stat().st_mtime_ns for name in done}
    assert len([*kept.glob("*.json")]) == 4


LINT_EACH = """
import sys
sys.modules["pyarrow"] = None
from replay.cli.main import main
for log in sys.argv[1:]:
    try:
        main(["lint", log, "--release", "3.9"])
    except SystemExit as end:
        print(end.code, file=sys.stderr)
"""
"""`replay lint` of each argument without pyarrow, with its exit code on standard error."""


def test_logs_need_no_pyarrow(tmp_path: Path) -> None:
    """A missing pyarrow is reported only for archives."""
    archive, empty = tmp_path / "archive", tmp_path / "empty"
    (archive / "cluster=a").mkdir(parents=True)
    empty.mkdir()
    words = [sys.executable, "-c", LINT_EACH, str(ROLL), str(archive), str(empty)]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    *printed, missing, second, other, third = done.stderr.splitlines()
    assert (printed[-1], second, third) == ("0", "2", "2")
    assert "pip install 'botocore" in missing
    assert other == f"Error: {empty} is no archive: create one with `replay capture`"


def touched(path: Path) -> Iterator[str]:
    """Work that leaves a file."""
    path.touch()
    yield path.name


def test_processes_do_not_work_far_ahead_of_the_caller(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Findings wait in this process, so their number is limited; their order is that of items."""
    monkeypatch.setattr("replay.engine.executors.AHEAD", 2)
    names = [f"{number:02}" for number in range(20)]
    results = ProcessExecutor(2).run(touched, [tmp_path / name for name in names])
    printed = [*next(results)]
    time.sleep(0.5)
    assert {path.name for path in tmp_path.iterdir()} <= {*names[:4]}
    printed += [name for result in results for name in result]
    assert printed == names

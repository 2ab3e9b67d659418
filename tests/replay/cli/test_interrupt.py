"""Ctrl-C at a terminal during a command: one sentence, and no leftover files."""

from functools import partial
from pathlib import Path

import msgspec
import pytest

from controlplane.terminal.exit_codes import INTERRUPTED
from tests.replay.cli.replay_calls import call, content
from tests.replay.cli.terminal import TerminalResult, running

pytestmark = pytest.mark.slow

RECORDS = 40_000
"""Number of records with which every command takes seconds."""

ENCRYPTED = 6_000
"""Number of records of the log whose capture is interrupted; few, as encryption takes time."""

BEFORE = 1_000
"""Number of records of that log that an earlier capture has archived."""

CONNECTORS = 50

CLUSTERS = ("a", "b", "c")
"""Clusters of the archive: enough that even commands with little work per record take seconds."""

UNDER_WAY = rf"[ m][1-9]\d*/{RECORDS * len(CLUSTERS)}"
"""Pattern of a progress bar that has begun to grow."""

NOT_KEPT = "--resume FOLDER would have stored their results"


@pytest.fixture(scope="module")
def dump(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Long log of configs, as JSON lines."""
    file = tmp_path_factory.mktemp("dump") / "long.jsonl"
    file.write_bytes(b"".join(msgspec.json.encode(_line(at)) + b"\n" for at in range(RECORDS)))
    return file


def _line(offset: int) -> dict[str, object]:
    name = f"c{offset % CONNECTORS}"
    value = f'{{"properties":{{"name":"{name}","n":"{offset}","password":"{offset}"}}}}'
    place = {"topic": "connect-configs", "partition": 0, "offset": offset}
    return place | {"timestamp": 1_000 + offset, "key": f"connector-{name}", "value": value}


@pytest.fixture(scope="module")
def archive(dump: Path) -> Path:
    """The long log, archived as the log of several clusters."""
    folder, logs = dump.with_name("archive"), (f"{name}={dump}" for name in CLUSTERS)
    assert call("capture", *logs, folder, "--format", "histories").code == 0
    return folder


def assert_ended(result: TerminalResult, sentence: str) -> None:
    """Check for exit code 130 and a sentence below the progress bar."""
    assert result.code == INTERRUPTED
    assert result.out == ""
    assert result.terminal.splitlines()[-1].endswith(sentence)
    assert "Traceback" not in result.terminal


proved = partial(pytest.param, marks=pytest.mark.prove)


@pytest.mark.parametrize(
    ("words", "says", "sentence"),
    [
        (("state", "--profile", "all", "--from-segments"), UNDER_WAY, "interrupted"),
        (("timeline", "--profile", "all"), UNDER_WAY, "interrupted"),
        (("timeline", "--profile", "all", "--jobs", "2"), "reading", "interrupted"),
        (("diff", "--from", "config@9"), "reading", "interrupted"),
        (("audit",), "auditing", NOT_KEPT),
        # These commands are interrupted as those above are, so only `make prove` runs them.
        proved(("timeline", "--profile", "all", "--jobs", "2"), r"0:00:01", "interrupted"),
        proved(("history", "--connector", "c1"), UNDER_WAY, "interrupted"),
        proved(("compat", "--from", "3.4", "--to", "3.9"), "assessing", NOT_KEPT),
        proved(("lint", "--release", "3.9"), "linting", NOT_KEPT),
    ],
)
def test_queries_end_at_once(
    archive: Path, words: tuple[str, ...], says: str, sentence: str
) -> None:
    """Ctrl-C ends each query with one sentence; the archive stays unchanged."""
    before = content(archive)
    command, *options = words
    with running(command, archive, *options) as command_run:
        command_run.wait_for(says)
        assert_ended(command_run.interrupted(), sentence)
    assert content(archive) == before


def interrupts(*_: object) -> None:
    """Raise `KeyboardInterrupt`, as Ctrl-C does."""
    raise KeyboardInterrupt


NOT_STORED = "no result is stored, since --resume stores those of archives only"


@pytest.mark.parametrize(
    ("where", "read_by", "words", "kept"),
    [
        (
            "archive",
            "commands.audit.requests_by_cluster",
            ("audit",),
            f"0 of 3 clusters; {NOT_KEPT}",
        ),
        ("dump", "commands.audit.requests_by_cluster", ("audit",), f"0 of 1 cluster; {NOT_STORED}"),
        (
            "dump",
            "execution.cluster_jobs.open_input",
            ("compat", "--from", "3.4", "--to", "3.9"),
            f"0 of 1 cluster; {NOT_STORED}",
        ),
    ],
    ids=["trail-of-archive", "trail-of-dump", "compat-of-dump"],
)
def test_the_interrupt_message_names_stored_results(
    where: str,
    read_by: str,
    words: tuple[str, ...],
    kept: str,
    *,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The message has the number of finished clusters, and the reason why no result is stored."""
    monkeypatch.setattr(f"replay.cli.{read_by}", interrupts)
    command, *options = words
    result = call(command, request.getfixturevalue(where), *options)
    assert result.code == INTERRUPTED
    clusters, _, reason = kept.partition("; ")
    assert f"interrupted: {clusters} done; {reason}\n" in result.err


def test_a_capture_goes_on_where_it_was(dump: Path, tmp_path: Path) -> None:
    """An interrupted capture adds no records; the next one adds all, and the archive is intact."""
    lines = dump.read_bytes().splitlines(keepends=True)[:ENCRYPTED]
    whole, half = tmp_path / "whole.jsonl", tmp_path / "half.jsonl"
    whole.write_bytes(b"".join(lines))
    half.write_bytes(b"".join(lines[:BEFORE]))
    key = tmp_path / "key"
    key.write_text(
        "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWYwMTIzNDU2Nzg5YWJjZGVmMDEyMzQ1Njc4OWFiY2RlZg=="
    )
    how = (
        tmp_path / "archive",
        "--format",
        "histories",
        "--secrets",
        "encrypt",
        "--secrets-key",
        key,
    )
    assert call("capture", f"long={half}", *how).code == 0
    with running("capture", f"long={whole}", *how) as capture:
        capture.wait_for("connect-configs")
        result = capture.interrupted()
    assert_ended(result, "interrupted: the next capture continues from here")
    assert archived(tmp_path / "archive") == BEFORE
    assert call("capture", f"long={whole}", *how).code == 0
    assert archived(tmp_path / "archive") == ENCRYPTED


def archived(archive: Path) -> int:
    """Number of records of an archive; verifies every byte first."""
    result = call("verify", archive, "-o", "json")
    assert result.code == 0
    return int(result.json[0]["records"])

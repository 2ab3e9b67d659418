"""`replay capture`, `verify` and `state` on the command line."""

import asyncio
import json
import re
import shlex
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import duckdb
import msgspec
import pyarrow.parquet as pq
import pytest
from pyarrow import dataset

from controlplane.core.releases.profiles import PROFILES
from controlplane.logs.log import Record
from controlplane.logs.sqlite import SqliteLog
from controlplane.terminal.extras import install_command
from replay.cli.main import COMMANDS
from replay.cli.optional_packages import EXTRAS
from replay.engine.states.state_digest import digest
from tests.conftest import sampled
from tests.recorded_requests import HISTORIES, recorded_entries
from tests.replay.archive.archives import log_of, served
from tests.replay.cli.embedded_logs import write_config
from tests.replay.cli.replay_calls import call, content, refusal, started, wait_for
from tests.replay.fleet.fleets import empty_files

pytestmark = pytest.mark.slow

LIFE = HISTORIES / "life-3.9.log.jsonl"


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Archive of the clusters `life` and `roll`."""
    folder = tmp_path_factory.mktemp("archive")
    roll = HISTORIES / "roll-3.4-3.9-3.4.log.jsonl"
    result = call("capture", f"life={LIFE}", f"roll={roll}", folder, "-o", "json")
    assert result.code == 0
    assert [(capture["cluster"], capture["added"]) for capture in result.json] == [
        ("life", 354),
        ("roll", 108),
    ]
    return folder


def test_capture_reports_its_work(archive: Path) -> None:
    """A second capture adds no records and changes no file."""
    before = content(archive)
    result = call("capture", f"life={LIFE}", archive)
    assert result.code == 0
    assert [*result.out.splitlines()[-1].split()][:4] == ["life", "354", "0", "354"]
    assert content(archive) == before


def test_a_dump_is_named_after_its_file(tmp_path: Path) -> None:
    """The default cluster name of a dump is its file name without `.log.jsonl`."""
    assert call("capture", LIFE, tmp_path, "-o", "json").json[0]["cluster"] == "life-3.9"


def test_ordinary_topics_are_not_listed_as_missing(tmp_path: Path) -> None:
    """Ordinary topics of a log are not reported as missing from the archive."""

    async def fill() -> None:
        log = await SqliteLog.open(tmp_path / "cluster.db")
        await log.create_topic("orders", 1)
        await log.append([Record("orders", 0, 1, b"1", b"an order")])
        await log.close()

    asyncio.run(write_config(tmp_path / "cluster.db", b"connector-a"))
    asyncio.run(fill())
    words = ("capture", tmp_path / "cluster.db", tmp_path / "archive", "--once")
    result = call(*words)
    assert (result.code, "orders" in result.out + result.err) == (0, False)
    assert call(*words, "-o", "json").json[0]["left_out"] == []


def test_an_embedded_log_is_captured_again(tmp_path: Path) -> None:
    """A second capture adds the new records alone."""
    captures = []
    for key in (b"connector-a", b"connector-b"):
        asyncio.run(write_config(tmp_path / "cluster.db", key))
        result = call(
            "capture", tmp_path / "cluster.db", tmp_path / "archive", "--once", "-o", "json"
        )
        captures.append((result.json[0]["read"], result.json[0]["added"]))
    assert captures == [(1, 1), (2, 1)]  # the last record is read again, and compared
    states = call("state", tmp_path / "archive", "-o", "json").json[0]["states"]
    assert [connector["connector"] for connector in states[0]["connectors"]] == ["a", "b"]


def test_a_live_log_is_followed_until_ctrl_c(tmp_path: Path) -> None:
    """Later records are archived as well; Ctrl-C leaves a sound archive."""
    asyncio.run(write_config(tmp_path / "cluster.db", b"connector-a"))
    words = (
        "capture",
        tmp_path / "cluster.db",
        tmp_path / "archive",
        "--every",
        "0.1",
        "-o",
        "json",
    )
    with started(*words) as following:
        wait_for(tmp_path / "archive" / "cluster=cluster" / "_manifest" / "0000000001.json")
        asyncio.run(write_config(tmp_path / "cluster.db", b"connector-b"))
        wait_for(tmp_path / "archive" / "cluster=cluster" / "_manifest" / "0000000002.json")
        following.send_signal(signal.SIGINT)
        _, errors = following.communicate()
    assert following.returncode == 130
    assert errors.endswith("interrupted: the next capture continues from here\n")
    assert call("verify", tmp_path / "archive", "-o", "json").json[0]["records"] == 2


def test_verify_accepts_only_heads_of_its_chain(archive: Path) -> None:
    """`verify` accepts a sound archive and a hash in its chain, and refuses another hash."""
    result = call("verify", archive, "-o", "json")
    assert result.code == 0
    assert [(report["cluster"], report["records"], report["sound"]) for report in result.json] == [
        ("life", 354, True),
        ("roll", 108, True),
    ]
    head = result.json[0]["head"]
    assert call("verify", archive, "--head", head).code == 0
    assert "cut off" in refusal(call("verify", archive, "--head", "0" * 64))


def test_gaps_are_named_and_are_no_flaws(tmp_path: Path) -> None:
    """`verify` prints gaps and exits with 1, not 2, because the archive itself is intact."""
    lines = LIFE.read_text().splitlines(keepends=True)
    configs = [line for line in lines[1:] if '"connect-configs"' in line]
    (tmp_path / "c.jsonl").write_text("".join(configs[:10]))
    (tmp_path / "later").mkdir()
    (tmp_path / "later" / "c.jsonl").write_text("".join(configs[20:]))
    for source in (tmp_path / "c.jsonl", tmp_path / "later" / "c.jsonl"):
        assert call("capture", source, tmp_path / "archive", "--format", "histories").code == 0
    result = call("verify", tmp_path / "archive")
    assert result.code == 1
    assert "connect-configs partition 0: offsets 10 to 19 had been removed" in result.out


def test_state_prints_the_digest_of_the_service(archive: Path) -> None:
    """`state` prints the service's digest for every release."""
    result = call("state", archive, "--cluster", "life", "--profile", "all", "-o", "json")
    expected = served(log_of(recorded_entries("life-3.9")), None, PROFILES)
    assert [state["digest"] for state in result.json[0]["states"]] == [*map(digest, expected)]
    assert [state["release"] for state in result.json[0]["states"]] == [
        profile.release for profile in PROFILES
    ]


def test_table_and_parquet_have_the_same_rows(archive: Path, tmp_path: Path) -> None:
    """Table and Parquet file have the same rows; the printed vector is a valid moment."""
    shown = call("state", archive, "--cluster", "roll", "--profile", "3.4")
    file = tmp_path / "state.parquet"
    vector = shown.out.splitlines()[-1].partition(" as of ")[2]
    words = ("state", archive, "--cluster", "roll", "--as-of", vector, "--profile", "3.4")
    assert call(*words, "-o", "parquet", "--to", file).code == 0
    rows = pq.read_table(file).to_pylist()
    assert rows
    for row in rows:
        (line,) = [line for line in shown.out.splitlines() if f" {row['connector']} " in line]
        assert row["target_state"] in line
        assert msgspec.json.decode(row["config"])["name"] == row["connector"]


def test_a_record_selects_the_clusters_of_its_connector(archive: Path) -> None:
    """`--as-of config@3` lists every cluster; one without the connector at that time has no row."""
    result = call("state", archive, "--connector", "orders", "--as-of", "config@3", "-o", "json")
    connectors = [cluster["states"][0]["connectors"] for cluster in result.json]
    assert [[row["connector"] for row in rows] for rows in connectors] == [["orders"], []]


def test_explain_prints_the_read_plan(archive: Path) -> None:
    """The plan has the numbers of files and rows; no row is shuffled."""
    result = call("state", archive, "--explain", "--cluster", "life", "-o", "json")
    (plan,) = result.json
    assert plan["rows_archived"] == 354
    assert 0 < plan["rows"] <= 354
    assert (plan["backend"], plan["shuffles"], plan["files"]) == ("local", 0, 9)
    assert "no JVM" in call("state", archive, "--explain").out


def test_secrets_are_hidden_in_every_output(tmp_path: Path) -> None:
    """Secrets of an archive are hidden in every output."""
    value = '{"properties":{"name":"a","password":"hunter2"}}'
    line = {"topic": "connect-configs", "partition": 0, "offset": 0, "timestamp": 1}
    (tmp_path / "a.jsonl").write_bytes(
        msgspec.json.encode(line | {"key": "connector-a", "value": value}) + b"\n"
    )
    call("capture", tmp_path / "a.jsonl", tmp_path / "archive", "--format", "histories")
    for output in (("-o", "json"), ("-o", "parquet", "--to", tmp_path / "f"), ()):
        result = call("state", tmp_path / "archive", *output)
        assert result.code == 0
        assert "hunter2" not in result.out
    assert "[hidden]" in pq.read_table(tmp_path / "f").column("config")[0].as_py()


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--as-of", "yesterday"], "is no point in time"),
        (["--as-of", '{"x":[2],"x":[1]}'], "the vector names the topic 'x' twice"),
        (["--profile", "0.8"], "unknown release '0.8'"),
        (["--exactly-once", "--profile", "2.8"], "no exactly-once support"),
        (["--cluster", "none"], "has no archive of a cluster none (found: life, roll)"),
        (["--connector", "none"], "no cluster had a connector 'none' at that moment"),
    ],
)
def test_unanswerable_questions_are_refused(archive: Path, words: list[str], sentence: str) -> None:
    """The command prints one sentence and exits with code 2."""
    assert sentence in refusal(call("state", archive, *words))


@pytest.mark.parametrize(
    ("moment", "sentence"),
    [
        ("1", "before the first record"),
        ("config@9999", "connect-configs reaches from config@0 to config@"),
        ('{"nothing":[1]}', "has no topic 'nothing'"),
    ],
)
def test_each_cluster_without_the_moment_is_named(
    archive: Path, moment: str, sentence: str
) -> None:
    """The command prints one sentence per cluster and exits with code 2."""
    result = call("state", archive, "--as-of", moment)
    assert (result.code, result.out) == (2, "")
    for line, cluster in zip(result.err.splitlines(), ("life", "roll"), strict=True):
        assert line.startswith(f"Error: {cluster}: ")
        assert sentence in line


@pytest.mark.parametrize(
    "words",
    [
        ("state",),
        ("timeline",),
        ("history", "--connector", "pages"),
        ("diff", "--from", "config@3"),
        ("audit",),
        ("lint", "--release", "3.9"),
        ("lint", "--hazards"),
        ("compat", "--from", "3.9", "--to", "4.0"),
    ],
)
def test_a_moment_of_another_form_is_refused_before_reading(
    archive: Path, words: tuple[str, ...], tmp_path: Path
) -> None:
    """The sentence about the option appears once, also if no file can be read."""
    damaged = shutil.copytree(archive, tmp_path / "damaged")
    empty_files(damaged)
    for moment, sentence in (("yesterday", "is no point in time"), ("config@", "is no position")):
        result = call(*words, damaged, "--as-of", moment)
        assert refusal(result).startswith(f"{moment!r} {sentence}")
        assert result.out == ""


def rows(files: str) -> int:
    """Number of rows that DuckDB reads."""
    return len(duckdb.connect().execute(f"select 1 from '{files}'").fetchall())


def test_duckdb_reads_segments_as_a_table(archive: Path) -> None:
    """Segments contain each record once; other Parquet files repeat some records."""
    segments = f"{archive}/**/segment-*.parquet"
    assert rows(segments) == 354 + 108
    assert rows(f"{archive}/**/*.parquet") > 354 + 108
    by_itself = dataset.dataset(archive, format="parquet", partitioning="hive")
    assert by_itself.count_rows() == 354 + 108


def test_an_archive_may_be_given_as_a_url(archive: Path) -> None:
    """A `file://` URL of the folder gives the same output as its path."""
    assert call("state", archive.as_uri()) == call("state", archive)


def test_the_history_has_each_connector_once(archive: Path) -> None:
    """Each connector appears once, in the requested order."""
    words = ("history", archive, "--cluster", "life", "-o", "json")
    both = call(*words, "--connector", "orders", "--connector", "pages", "--connector", "orders")
    alone = [call(*words, "--connector", name).json for name in ("orders", "pages")]
    assert both.json == [*alone[0], *alone[1]]


ARCHIVE_COMMANDS = ("compact-archive", "verify", "state", "timeline")
"""Commands that take archives only."""


@pytest.mark.parametrize("command", [*ARCHIVE_COMMANDS, "report", "audit", "lint"])
def test_a_missing_path_is_an_error(command: str, tmp_path: Path) -> None:
    """Every command has the same sentence for a path that does not exist; no folder is made."""
    none = tmp_path / "none"
    options = {"report": ("--file", tmp_path / "page.html"), "lint": ("--release", "3.9")}
    expected = f"{none} does not exist: check the path"
    assert refusal(call(command, none, *options.get(command, ()))) == expected
    assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize("command", ARCHIVE_COMMANDS)
def test_a_folder_without_archive_is_an_error(command: str, tmp_path: Path) -> None:
    """The error says how to make an archive."""
    expected = f"{tmp_path} is no archive: create one with `replay capture`"
    assert refusal(call(command, tmp_path)) == expected


def test_a_log_in_place_of_an_archive_gets_advice(tmp_path: Path) -> None:
    """The error has the command that archives the log, and the commands that read logs."""
    log, fleet = tmp_path / "a b.log.jsonl", tmp_path / "fleet"
    shutil.copy(HISTORIES / "life-3.9.log.jsonl", log)
    message = refusal(call("state", log))
    assert message == (
        f"{log} is a file, no archive. If it is a log, archive it with "
        f"`replay capture lab='{log}' fleet --once`, and name the folder `fleet`. "
        "`audit`, `compat`, `lint` and `report` also read logs"
    )
    assert call("capture", f"lab={log}", fleet, "--once").code == 0
    assert call("state", fleet).code == 0
    for where in ("kafka://ada:secret@h:9092", "sqlite:///l.db"):
        message = refusal(call("state", where))
        assert "If it is a log, archive it with `replay capture lab=LOG fleet --once`" in message
        assert "secret" not in message


@pytest.mark.parametrize("arguments", [(), ("l.db",)])
def test_a_capture_without_archive_is_refused(arguments: tuple[str, ...]) -> None:
    """The error names both arguments; click itself would name only one."""
    result = call("capture", *arguments)
    assert (result.code, result.err.splitlines()[-1]) == (2, "Error: give LOG and ARCHIVE")


def without(missing: tuple[str, ...], *arguments: str) -> "subprocess.CompletedProcess[str]":
    """Run `replay` in a process without these packages."""
    lines = "import sys; sys.modules.update(dict.fromkeys(sys.argv.pop(1).split(','))); "
    lines += "from replay.cli.main import main; main(prog_name='replay')"
    words = [sys.executable, "-c", lines, ",".join(missing), *arguments]
    return subprocess.run(words, capture_output=True, text=True, check=False)


BY_PIP = "pip install 'botocore>=1.36' 'numpy>=2.2' 'pyarrow>=24'"
"""Install command with the requirements of pyproject.toml.

It needs neither a clone nor a wheel of this project.
"""


@pytest.mark.parametrize("missing", ["pyarrow", "numpy"])
def test_missing_packages_are_named(missing: str) -> None:
    """The error names the missing package and the command that installs it."""
    done = without((missing,), "state", "x")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"Error: this needs {missing}, which is not installed here: {BY_PIP}\n"


HELP = """
import json, sys
missing, commands = map(json.loads, sys.argv[1:])
sys.modules.update(dict.fromkeys(missing))
from replay.cli.main import main
for command in commands:
    main([command, "--help"], prog_name="replay", standalone_mode=False)
"""
"""The help of each command, without these packages."""


def test_help_needs_no_extras() -> None:
    """Help of every command is the same with and without the extras."""
    texts = []
    for missing in ([*EXTRAS], []):
        words = [sys.executable, "-c", HELP, json.dumps(missing), json.dumps([*COMMANDS])]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, "")
        texts.append(done.stdout)
    assert texts[0] == texts[1]
    assert all(f"Usage: replay {command} " in texts[0] for command in COMMANDS)


PANDAS = """
import json, sys
from replay.cli.main import main
for words in json.loads(sys.argv[1]):
    main(words, prog_name="replay", standalone_mode=False)
assert "pyarrow" in sys.modules
assert "pandas" not in sys.modules
import pyarrow
assert len(pyarrow.table({"key": ["a"]}).to_pandas()) == 1
"""
"""Commands, and a check that they import no pandas; a conversion to pandas still works."""


@pytest.mark.parametrize("command", ["state", "audit"])
def test_commands_import_no_pandas(tmp_path: Path, command: str) -> None:
    """Commands import no pandas: its import takes longer than most commands, and loses Ctrl-C.

    `audit` imports pyarrow only once it has an archive to read.
    """
    archive = str(tmp_path / "archive")
    assert call("capture", f"life={LIFE}", archive).code == 0
    commands = [["verify", archive], [command, archive]][command == "audit" :]
    words = [sys.executable, "-c", PANDAS, json.dumps(commands)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert not done.returncode, done.stderr


@pytest.mark.parametrize("extra", sampled(["replay", "spark"], "spark"))
def test_the_install_command_installs_the_extra(extra: str) -> None:
    """The command names the extra's packages; the installed versions satisfy its requirements."""
    program, *words = shlex.split(install_command(extra))
    assert (program, words[0]) == ("pip", "install")
    command = [sys.executable, "-m", "pip", *words, "--no-index", "--dry-run", "--quiet"]
    assert not subprocess.run(command, capture_output=True, check=False).returncode
    named = {re.split("[<>=]", word)[0] for word in words[1:]}
    local = {"botocore", "numpy", "pyarrow"}
    brought = {"replay": local, "spark": {*local, "pandas", "pyspark"}}
    assert named == brought[extra]


def test_unwritable_places_are_refused(tmp_path: Path) -> None:
    """An archive or a table at an unwritable path is refused; no file is added or replaced."""
    (tmp_path / "file").write_text("not ours")
    sentence = refusal(call("capture", f"life={LIFE}", tmp_path / "file"))
    assert "file cannot be written (Not a directory)" in sentence
    assert (tmp_path / "file").read_text() == "not ours"
    assert call("capture", f"life={LIFE}", tmp_path / "archive").code == 0
    for place in (tmp_path / "file" / "table", tmp_path / "none" / "table", tmp_path):
        sentence = refusal(call("state", tmp_path / "archive", "-o", "parquet", "--to", place))
        assert f"{place} cannot be written (" in sentence
    assert sorted(path.name for path in tmp_path.iterdir()) == ["archive", "file"]


def test_refused_captures_leave_the_archive_alone(archive: Path, tmp_path: Path) -> None:
    """The archive stays unchanged after each refusal."""
    before = content(archive)
    (tmp_path / "cut.jsonl").write_bytes(LIFE.read_bytes()[:20_000])
    assert "cut.jsonl cannot be read whole" in refusal(
        call("capture", f"life={tmp_path / 'cut.jsonl'}", archive)
    )
    other = HISTORIES / "life-4.3.log.jsonl"
    assert "another cluster" in refusal(call("capture", f"life={other}", archive))
    assert "there is no topic mine" in refusal(
        call("capture", f"new={LIFE}", archive, "--config-topic", "mine")
    )
    assert "secrets in the archive of life are kept" in refusal(
        call("capture", f"life={LIFE}", archive, "--secrets", "drop")
    )
    assert content(archive) == before

"""`replay report` on the command line."""

import shutil
from pathlib import Path

import pytest

from tests.recorded_requests import HISTORIES
from tests.replay.cli.replay_calls import call, refusal
from tests.replay.report.page_reader import read

LIFE = HISTORIES / "life-3.9.log.jsonl"
ROLL = HISTORIES / "roll-3.4-3.9-3.4.log.jsonl"


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Archive of the clusters `life` and `roll`, which no test changes."""
    folder = tmp_path_factory.mktemp("fleet")
    call("capture", f"life={LIFE}", f"roll={ROLL}", folder, "--once")
    return folder


@pytest.fixture
def fleet(sound: Path, tmp_path: Path) -> Path:
    """Copy of an archive of the clusters `life` and `roll`."""
    return shutil.copytree(sound, tmp_path / "fleet")


@pytest.mark.slow
def test_a_page_has_all_clusters_of_an_archive_or_one(fleet: Path, tmp_path: Path) -> None:
    """A page shows one cluster, or all clusters with each head (the hash of the last manifest)."""
    result = call("report", fleet, "--to", tmp_path / "all.html", "--release", "3.9")
    assert (result.code, result.out) == (0, f"{tmp_path / 'all.html'}: 2 clusters\n")
    text = (tmp_path / "all.html").read_text(encoding="utf-8")
    assert {"c0", "c1"} <= {element.attributes.get("id") for element in read([text]).every()}
    heads = [report["head"] for report in call("verify", fleet, "-o", "json").json]
    assert len(heads) == 2
    assert [head for head in heads if head not in text] == []
    call("report", fleet, "--to", tmp_path / "one.html", "--cluster", "roll")
    roll_page = read([(tmp_path / "one.html").read_text(encoding="utf-8")])
    assert next(roll_page.all("h1")).text == "roll"


def test_a_page_of_a_log_ends_at_the_moment(tmp_path: Path) -> None:
    """The page ends at the given moment, and compares the named releases."""
    words = ("report", ROLL, "--to", tmp_path / "page.html", "--cluster", "roll")
    options = ("--towards", "3.4", "--towards", "4.3", "--as-of", "config@9")
    assert call(*words, *options).code == 0
    shown = read([(tmp_path / "page.html").read_text(encoding="utf-8")])
    heads = [head.text for head in next(shown.by_id("c0-releases").all("thead")).all("th")]
    assert heads == ["connector", "3.4", "4.3"]
    assert "config@9" in shown.text
    assert "config@10" not in shown.text


def test_kept_answers_make_the_same_page(fleet: Path, tmp_path: Path) -> None:
    """A run with `--resume` gives the page of a full run, without and with kept answers."""
    pages = []
    for number in range(3):
        file = tmp_path / f"{number}.html"
        options = ("--resume", tmp_path / "kept") if number else ()
        words = ("report", fleet, "--to", file, "--release", "3.9", "--towards", "4.3")
        assert call(*words, *options).code == 0
        pages.append(file.read_bytes())
    assert pages[0] == pages[1] == pages[2]
    assert len(list((tmp_path / "kept").glob("*.json"))) == 2


@pytest.mark.parametrize("command", ["audit", "report"])
def test_requests_to_one_cluster_keep_answers_for_others(
    command: str, sound: Path, tmp_path: Path
) -> None:
    """A task and its stored answer have only the requests to their own cluster."""
    event = '{"time": "2026-11-21T10:00:00Z", "principal": "bob", "connector": "pages"}\n'
    (tmp_path / "trail").write_text(event)
    options = {"report": ("--file", tmp_path / "page.html", "--towards", "4.3")}.get(command, ())
    words = (command, sound, *options, "--resume", tmp_path / "kept")
    for trails in ((), ("--trail", f"roll={tmp_path / 'trail'}")):
        assert call(*words, *trails).code in {0, 1}
    names = sorted(path.name.partition("-")[0] for path in (tmp_path / "kept").glob("*.json"))
    assert names == ["life", "roll", "roll"]


def test_a_page_names_a_damaged_cluster(fleet: Path, tmp_path: Path) -> None:
    """The page names a damaged cluster and its error; if all are damaged, no page is written."""
    (fleet / "cluster=life" / "_manifest" / "0000000001.json").write_text("{}")
    result = call("report", fleet, "--to", tmp_path / "page.html")
    assert result.code == 2
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "life could not be read: " in read([text]).text
    (fleet / "cluster=roll" / "_manifest" / "0000000001.json").write_text("{}")
    assert call("report", fleet, "--to", tmp_path / "none.html").code == 2
    assert not (tmp_path / "none.html").exists()


def test_unwritable_places_are_refused(tmp_path: Path) -> None:
    """The command prints one sentence and leaves no file."""
    result = call("report", ROLL, "--to", tmp_path / "nowhere" / "page.html", "--towards", "4.3")
    assert "nowhere is no directory): make it" in refusal(result)
    assert list(tmp_path.iterdir()) == []


def test_a_page_predicts_no_release_too_new(tmp_path: Path) -> None:
    """Nobody knows the effects of a release that is newer than all known lines."""
    result = call("report", ROLL, "--to", tmp_path / "page.html", "--towards", "9.9")
    assert "release 9.9 is newer than" in refusal(result)
    assert list(tmp_path.iterdir()) == []


def test_a_page_names_the_user(tmp_path: Path) -> None:
    """The page names the principal from an audit stream."""
    event = '{"at_ms": 1795215001000, "user": "bob", "path": "/connectors/orders/config"}'
    (tmp_path / "trail").write_text(event)
    words = ("report", LIFE, "--to", tmp_path / "page.html", "--towards", "4.3")
    call(*words, "--trail", tmp_path / "trail")
    with_trail = (tmp_path / "page.html").read_text()
    assert " by bob (audit stream)" in with_trail
    assert "from the records and audit streams." in read([with_trail]).text
    call(*words)
    without = (tmp_path / "page.html").read_text()
    assert "bob" not in without
    assert "from the records alone." in read([without]).text

"""`controlplane inspect --compare`: one log, read by several releases."""

import json
from pathlib import Path

import pytest

from tests.cli.command_calls import call, refusal

BORN = """\
   CONNECTOR  3.4.1                    3.9.2
────────────────────────────────────────────────────────────────
≠  born       PAUSED: PAUSED, 0 tasks  STOPPED: STOPPED, 0 tasks

born: target state
  3.4.1    PAUSED
  3.9.2    STOPPED
  because of config@12  target-state-born  {"state": "PAUSED", "state.v2": "STOPPED"}
"""


def test_a_stopped_connector_is_paused_for_an_older_release(histories: Path) -> None:
    """Each release has a column; the differing row is marked, with its record below."""
    log = histories / "roll-3.4-3.9-3.4.log.jsonl"
    result = call("inspect", log, "--compare", "3.4,3.9", "--connector", "born")
    assert (result.code, result.out[: len(BORN)]) == (0, BORN)


def test_equal_neighbours_of_a_marked_row_are_not_repeated(histories: Path) -> None:
    """`=` means the same as the column to the left, also if a third release differs."""
    log = histories / "roll-3.4-3.9-3.4.log.jsonl"
    out = call("inspect", log, "--compare", "3.3,3.4,3.9,kip", "--connector", "born").out
    row = out.splitlines()[2].split(maxsplit=2)[2]
    assert row == "PAUSED: PAUSED, 0 tasks  =      STOPPED: STOPPED, 0 tasks  ="


def test_json_has_each_difference_with_its_cause(histories: Path) -> None:
    """JSON has each difference with every release's value and its cause; only those rows differ."""
    log = histories / "roll-3.4-3.9-3.4.log.jsonl"
    document = call("inspect", log, "--compare", "3.4,3.9,kip", "-o", "json").json
    assert document["profiles"] == ["3.4.1", "3.9.2", "kip"]
    assert [row["name"] for row in document["connectors"] if row["differs"]] == ["born"]
    (target, _) = document["differences"]
    assert target["values"] == {"3.4.1": "PAUSED", "3.9.2": "STOPPED", "kip": "STOPPED"}
    assert (target["cause"]["offset"], target["cause"]["key"]) == (12, "target-state-born")


def test_offsets_that_differ_are_traced_to_their_records(histories: Path) -> None:
    """Only the profile `kip` finds an offset under the key's bytes; its record is named."""
    log = histories / "life-3.9.log.jsonl"
    document = call("inspect", log, "--compare", "3.9,kip", "-o", "json").json
    offsets = [
        difference
        for difference in document["differences"]
        if difference["aspect"] == "source offset"
    ]
    assert len(offsets) == len(document["differences"]) == 6
    for traced in offsets:
        assert traced["values"]["3.9.2"] is None
        assert traced["cause"]["topic"] == "connect-offsets"
        assert traced["cause"]["value"] is not None


def test_releases_that_agree_give_one_sentence(histories: Path) -> None:
    """One sentence says that the releases agree, and no row is marked."""
    result = call("inspect", histories / "mirror-3.9.log.jsonl", "--compare", "3.9.0,3.9.1")
    assert "3.9.0 and 3.9.1 agree in everything" in result.out
    assert "≠" not in result.out


def test_a_name_that_only_a_difference_mentions_has_a_row(histories: Path) -> None:
    """`gone` is inconsistent for 3.4 and unknown to 3.9."""
    result = call("inspect", histories / "odd-records-3.9.log.jsonl", "--compare", "3.4,3.9")
    assert "gone: inconsistent" in result.out
    assert any(line.split()[:2] == ["≠", "gone"] for line in result.out.splitlines())


@pytest.mark.parametrize(
    ("releases", "sentence"),
    [
        ("3.9", "--compare needs at least two releases"),
        ("3.9,3.9", "--compare names one release, 3.9.2, 2 times: name two"),
        ("3.9,3.9.2", "--compare names one release, 3.9.2, 2 times: name two"),
    ],
)
def test_one_release_cannot_be_compared(histories: Path, releases: str, sentence: str) -> None:
    """A single name is refused, and so are two names of one release."""
    result = call("inspect", histories / "life-3.9.log.jsonl", "--compare", releases)
    assert (result.code, result.out) == (2, "")
    assert sentence in result.err


def test_an_agreement_names_the_connector(histories: Path) -> None:
    """With `--connector`, the sentence says about which connector the releases agree."""
    log = histories / "roll-3.4-3.9-3.4.log.jsonl"
    compared = ("inspect", log, "--compare", "3.4,3.9")
    names = [row["name"] for row in call(*compared, "-o", "json").json["connectors"]]
    other = next(name for name in names if name != "born")
    agreeing = call(*compared, "--connector", other)
    assert f"3.4.1 and 3.9.2 agree about {other}\n" in agreeing.out


@pytest.mark.parametrize("output", ["table", "json"])
def test_an_unknown_connector_is_not_compared(histories: Path, output: str) -> None:
    """A name that no release knows is refused, with the names that they know."""
    log = histories / "roll-3.4-3.9-3.4.log.jsonl"
    unknown = ("--compare", "3.4,3.9", "--connector", "nosuch", "-o", output)
    message = refusal(call("inspect", log, *unknown))
    assert message.startswith("there is no connector 'nosuch' at this point of the log")
    assert "born" in message


def test_a_connector_of_which_only_a_status_is_left(histories: Path, tmp_path: Path) -> None:
    """A row without config and target state says so."""
    first, *lines = (histories / "life-3.9.log.jsonl").read_text().splitlines()
    lines = [line for line in lines if '"topic":"connect-configs"' not in line]
    header = json.loads(first) | {"records": len(lines)}
    header["end"]["connect-configs"] = [0]
    log = tmp_path / "statuses.log.jsonl"
    log.write_text("\n".join([json.dumps(header), *lines]))
    out = call("inspect", log, "--compare", "3.4,3.9", "--connector", "orders").out
    row = out.splitlines()[2]
    assert row.split(maxsplit=1)[1].split("  ")[0] == "status without a connector config"

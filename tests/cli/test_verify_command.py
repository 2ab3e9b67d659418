"""`controlplane verify` compares a story's answers with the fold of a log."""

import json
from pathlib import Path

import pytest

from tests.cli.command_calls import ROOT, CommandResult, call, refusal, shell
from tests.test_histories import ANSWERS, BEFORE_COMPACTION

ABORTED = """\
step 10, 3.9.1: GET /connectors
  --- recorded
  +++ folded
   HTTP 200
   [
  +  "aborted",
     "committed",
     "other",
     "pages"
  because of config@12  connector-aborted  \
{"properties": {"connector.class": "lab.PagesSourceConnector"\
"""


def verify(histories: Path, log: Path, story: str, *options: object) -> CommandResult:
    """Verify a story with the catalogue of the recorded clusters."""
    return call(
        *("verify", log, histories / f"{story}.story.jsonl"),
        *("--plugins", histories / "catalogue.json", *options),
    )


def test_a_history_agrees_with_its_log(histories: Path) -> None:
    """Equal answers give exit code 0 and one line with their number."""
    result = verify(histories, histories / "life-4.3.log.jsonl", "life-4.3")
    assert (result.code, result.err) == (0, "")
    assert result.out == (
        f"{ANSWERS['life-4.3']} of {ANSWERS['life-4.3']} answers agree with the log; "
        "21 are offsets of sinks, which no log of Connect has; "
        "81 answers to requests are not compared\n"
    )


def test_differences_are_shown_with_the_record_that_explains_them(histories: Path) -> None:
    """Without the worker's exactly-once support, an aborted record explains each difference."""
    result = verify(histories, histories / "aborted-3.9.log.jsonl", "aborted-3.9")
    assert result.code == 1
    assert result.out[: len(ABORTED)] == ABORTED
    assert result.out.endswith(
        "62 of 64 answers agree with the log, 2 differ; 2 answers to requests are not compared\n"
    )


def test_json_lists_differences_with_their_cause(histories: Path) -> None:
    """`-o json` lists the answers that differ, with the cause."""
    log = histories / "aborted-3.9.log.jsonl"
    document = verify(histories, log, "aborted-3.9", "-o", "json").json
    assert (document["compared"], document["same"], document["beyond"]) == (64, 62, 0)
    first = document["differences"][0]
    assert (first["step"], first["path"]) == (10, "/connectors")
    assert "aborted" in first["folded"]["answer"]
    assert first["cause"]["key"] == "connector-aborted"


def test_exactly_once_support_per_worker(histories: Path) -> None:
    """A worker named by the option skips aborted records; without a name all workers do."""
    log = histories / "aborted-3.9.log.jsonl"
    assert verify(histories, log, "aborted-3.9", "--exactly-once", "w2").code == 0
    assert verify(histories, log, "aborted-3.9", "--exactly-once", "w1").code == 1
    log = histories / "exactly-once-3.9.log.jsonl"
    assert verify(histories, log, "exactly-once-3.9", "--exactly-once").code == 0


def test_records_from_before_compaction_explain_every_answer(
    histories: Path, tmp_path: Path
) -> None:
    """`--before` reads the removed records, also from an embedded log; then all answers match."""
    name, before = "compacted-3.9", tmp_path / "before.db"
    log = histories / f"{name}.log.jsonl"
    call("import", histories / f"{name}.before.log.jsonl", before)
    assert verify(histories, log, name).code == 1
    result = verify(histories, log, name, "--before", before)
    count = ANSWERS[name] + BEFORE_COMPACTION
    assert (result.code, result.out) == (
        0,
        f"{count} of {count} answers agree with the log; 15 answers to requests are not compared\n",
    )


@pytest.mark.parametrize("name", ["life-4.3", "mirror-3.9", "life-2.8"])
def test_without_a_catalogue_types_are_not_compared(histories: Path, name: str) -> None:
    """One line says so; all else is compared, and a sink's offsets are recognised."""
    log, story = (histories / f"{name}.{kind}.jsonl" for kind in ("log", "story"))
    result = call("verify", log, story)
    assert (result.code, result.err) == (
        0,
        "Warning: no --plugins: the types of connectors are not compared\n",
    )
    assert result.out.startswith(f"{ANSWERS[name]} of {ANSWERS[name]} answers agree with the log")


def test_the_catalogue_of_the_settings_declares_types(histories: Path, tmp_path: Path) -> None:
    """`plugins.catalogue` has the effect of `--plugins`, as in every command."""
    log, story = (histories / f"mirror-3.9.{kind}.jsonl" for kind in ("log", "story"))
    other = tmp_path / "story.jsonl"
    other.write_text(story.read_text("utf-8").replace('"type":"source"', '"type":"sink"'), "utf-8")
    result = call("verify", log, other, "--override", f"plugins.catalogue={PLUGINS}")
    assert (result.code, result.err) == (1, "")
    assert '"type": "source"' in result.out


def test_without_a_catalogue_all_else_is_compared(histories: Path, tmp_path: Path) -> None:
    """A differing config gives exit code 1, in a process of its own."""
    log, story = (histories / f"mirror-3.9.{kind}.jsonl" for kind in ("log", "story"))
    other = tmp_path / "log.jsonl"
    other.write_text(log.read_text("utf-8").replace('\\"name\\":', '\\"nome\\":'), "utf-8")
    result = shell("verify", other, story)
    assert result.code == 1
    assert '"nome":' in result.out
    assert '-  "type"' not in result.out


def test_secrets_in_differences_are_hidden(histories: Path, tmp_path: Path) -> None:
    """Answers and the explaining record hide secrets; a differing secret still shows."""
    log, story = tmp_path / "log.jsonl", tmp_path / "story.jsonl"
    for path, kind, secret in ((log, "log", "s3cret"), (story, "story", "other-s3cret")):
        text = (histories / f"mirror-3.9.{kind}.jsonl").read_text("utf-8")
        planted = text.replace('\\"name\\":', f'\\"my.password\\":\\"{secret}\\",\\"name\\":')
        planted = planted.replace('"config":{', f'"config":{{"my.password":"{secret}",')
        path.write_text(planted, "utf-8")
    result = call("verify", log, story, "--plugins", PLUGINS)
    assert result.code == 1
    assert '"my.password": "[hidden]"' in result.out
    assert '"my.password": "[hidden] (differs)"' in result.out
    machine = call("verify", log, story, "--plugins", PLUGINS, "-o", "json")
    causes = [
        difference["cause"]["value"]
        for difference in machine.json["differences"]
        if difference["cause"]
    ]
    assert any("[hidden]" in value for value in causes)
    assert "s3cret" not in result.out + machine.out


def test_the_log_may_stand_behind_exactly_once(histories: Path) -> None:
    """`--exactly-once` without a name does not take the next argument."""
    name = "exactly-once-3.9"
    log, story = (str(histories / f"{name}.{kind}.jsonl") for kind in ("log", "story"))
    options = ["--plugins", str(PLUGINS)]
    for words in (
        ["--exactly-once", log, story, *options],
        [log, "--exactly-once", story, *options],
        [log, story, "--exactly-once", *options],
    ):
        assert call("verify", *words).code == 0
    missing = call("verify", log, "--exactly-once")
    assert missing.code == 2
    assert "Missing argument 'STORY'" in missing.err


def test_a_worker_that_the_story_does_not_know_is_refused(histories: Path) -> None:
    """An unknown worker is refused: a misspelt name would prove nothing."""
    result = verify(
        *(histories, histories / "aborted-3.9.log.jsonl", "aborted-3.9"),
        *("--exactly-once", "nobody"),
    )
    assert refusal(result) == "the story has no worker 'nobody': it has w1, w2"


@pytest.mark.slow
def test_a_story_of_another_history_is_warned_of(histories: Path) -> None:
    """A warning names both histories; the answers are compared nevertheless."""
    result = verify(histories, histories / "life-3.4.log.jsonl", "life-3.9")
    assert result.code == 1
    of_another, first, *_, last = result.err.splitlines()
    assert of_another == "Warning: the log is of the history life-3.4, the story of life-3.9"
    assert first == (
        "Warning: the worker of step 55 has read up to connect-configs@58, but the log ends at "
        "connect-configs@56. From this step on, answers are compared with an older state: "
        "give the whole log"
    )
    assert last == "Warning: … and 4 more partitions end too early"


def test_a_story_without_observations_proves_nothing(histories: Path, tmp_path: Path) -> None:
    """A story without observations is refused: it compares nothing."""
    log, story = histories / "mirror-3.9.log.jsonl", tmp_path / "story.jsonl"
    lines = (histories / "mirror-3.9.story.jsonl").read_text("utf-8").splitlines()
    for kinds, reason in (
        (("start",), "no step observes an answer"),
        (("start", "request"), "23 answers to requests are not compared"),
    ):
        kept = [line for line in lines[1:] if json.loads(line)["kind"] in kinds]
        story.write_text("\n".join([lines[0], *kept]), "utf-8")
        for output in ("table", "json"):
            result = call("verify", log, story, "--plugins", PLUGINS, "-o", output)
            assert refusal(result).endswith(f"has nothing to compare with a log: {reason}")


def test_answers_of_requests_are_counted_for_machines(histories: Path) -> None:
    """The JSON output counts the answers that are not compared."""
    document = verify(
        histories, histories / "mirror-3.9.log.jsonl", "mirror-3.9", "-o", "json"
    ).json
    assert document["requests_not_compared"] == 23


def test_a_log_that_ends_before_the_story_is_warned_of(histories: Path, tmp_path: Path) -> None:
    """A shorter log can cause differences; without differences it proves nothing."""
    log = tmp_path / "log.jsonl"
    text = (histories / "life-2.8.log.jsonl").read_text("utf-8")
    # The first line is the header with the number of records.
    _, *lines = text.splitlines(keepends=True)
    last = max(at for at, line in enumerate(lines) if '"topic":"connect-configs"' in line)
    log.write_text("".join(lines[:last] + lines[last + 1 :]), "utf-8")
    result = verify(histories, log, "life-2.8")
    assert (
        "read up to connect-configs@54, but the log ends at connect-configs@53. From" in result.err
    )


@pytest.mark.parametrize(
    ("name", "options"),
    [("exactly-once-3.9", ["--exactly-once"]), ("aborted-3.9", ["--exactly-once", "w2"])],
)
def test_the_end_of_a_transaction_is_no_missing_record(
    histories: Path, name: str, options: list[str]
) -> None:
    """The end marker takes an offset that no log file has."""
    result = verify(histories, histories / f"{name}.log.jsonl", name, *options)
    assert (result.code, result.err) == (0, "")


def test_a_story_of_a_release_too_new_is_read_as_a_known_one(
    histories: Path, tmp_path: Path
) -> None:
    """A release newer than the known ones is read as the newest before it, with one warning."""
    story = tmp_path / "story.jsonl"
    text = (histories / "mirror-3.9.story.jsonl").read_text("utf-8")
    story.write_text(text.replace('"release":"3.9.1"', '"release":"3.9.77"'), "utf-8")
    result = call("verify", histories / "mirror-3.9.log.jsonl", story, "--plugins", PLUGINS)
    assert result.err == "Warning: release 3.9.77 is not known; read as 3.9.2\n"
    assert result.code == 0


def test_support_that_a_release_never_had_is_refused(histories: Path) -> None:
    """Exactly-once support is refused for a release without it."""
    log = histories / "life-2.8.log.jsonl"
    message = refusal(verify(histories, log, "life-2.8", "--exactly-once"))
    assert message.startswith("2.8.2 has no exactly-once support, which came with KIP-618")


def test_files_without_a_story_are_refused(histories: Path, tmp_path: Path) -> None:
    """Examples are a log, an empty file, garbage, and a step of an unknown release."""
    log, bad = histories / "mirror-3.9.log.jsonl", tmp_path / "bad.jsonl"
    assert "not a step of a story" in refusal(call("verify", log, log, "--plugins", PLUGINS))
    for text, sentence in (
        ("", "holds no steps"),
        ("{}\n{}\n", "bad.jsonl:2: not a step of a story"),
        ("{}\n\udcff\n", "bad.jsonl:2: not a step of a story"),
        (
            '{}\n{"n":1,"kind":"observe","release":"x","answers":{"/":{"status":1,"answer":1}}}\n',
            "x",
        ),
    ):
        bad.write_text(text, "utf-8", "surrogateescape")
        assert sentence in refusal(call("verify", log, bad, "--plugins", PLUGINS))


DEPTHS = [200, 900, 1_500, 100_000]
"""Nesting depths: the least is read and printed, the greatest exceeds every limit."""


@pytest.mark.parametrize("depth", DEPTHS)
@pytest.mark.parametrize("path", ["/connectors", "/connectors/a", "/connectors/a/offsets"])
def test_a_deep_answer_is_a_difference_or_refused(tmp_path: Path, path: str, depth: int) -> None:
    """Readable deep answers are compared; others are reported as not compared."""
    log, story = tmp_path / "log.jsonl", tmp_path / "story.jsonl"
    log.write_text(
        '{"topic":"connect-configs","partition":0,"offset":0,"timestamp":5,'
        '"key":"connector-a","value":"{\\"properties\\":{\\"b\\":\\"c\\"}}"}\n'
    )
    answer = f'{{"offsets":{"[" * depth}{"]" * depth}}}'
    story.write_text(
        '{}\n{"n":1,"kind":"observe","worker":"w1","release":"3.9.1",'
        f'"positions":{{"connect-configs":[1]}},'
        f'"answers":{{"{path}":{{"status":200,"answer":{answer}}}}}}}\n'
    )
    result = call("verify", log, story, "--plugins", PLUGINS)
    if result.code == 1:
        assert depth < DEPTHS[-1]
        assert result.out.endswith("0 of 1 answers agree with the log, 1 differs\n")
        assert call("verify", log, story, "--plugins", PLUGINS, "-o", "json").code == 1
    else:
        assert depth > DEPTHS[0]
        assert refusal(result) == (
            f"{story}:2: nested too deeply to be read: take this step out, its answers cannot "
            "be compared"
        )


PLUGINS = Path(__file__).parents[1] / "histories" / "catalogue.json"


def test_the_help_lists_the_exit_codes_of_the_page() -> None:
    """The help has each exit code of docs/testing.md, except that of success."""
    page = (ROOT / "docs/testing.md").read_text("utf-8")
    rows = page.partition("| Exit code | Meaning |\n|---|---|\n")[2].partition("\n\n")[0]
    codes = [row.split("|")[1].strip() for row in rows.splitlines()[1:]]
    help_text = " ".join(call("verify", "--help").out.split())
    assert [code for code in codes if f"{code}: " not in help_text] == []

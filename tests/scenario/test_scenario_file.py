"""Grammar of scenario files: steps, errors, and rewrites that change only expected output."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.scenario.scenario_file import BadScenario, ScenarioStep, parse, rewritten

TEXT = """\
# Title.
#
# Reason.

GET /connectors?expand=status via=w1 x=a=b
{"body": 1}
# no comment: it belongs to the step
----
200
{}

# --- act two ---

log config
----
"""


def test_steps_know_their_parts() -> None:
    """A path keeps its query; options split at the first `=`; lines count from 1."""
    first, second = parse(TEXT, "x").steps
    assert first == ScenarioStep(
        text="GET /connectors?expand=status via=w1 x=a=b",
        line=5,
        verb="GET",
        words=("/connectors?expand=status",),
        options={"via": "w1", "x": "a=b"},
        body=('{"body": 1}', "# no comment: it belongs to the step"),
        expected=("200", "{}"),
        expected_line=9,
    )
    assert (second.line, second.verb, second.expected) == (14, "log", ())


def test_a_title_is_the_first_comment() -> None:
    """The title is the comment's first line; a file that begins with a step has none."""
    assert parse(TEXT, "x").title == "Title."
    assert parse("log config\n----\n", "x").title == ""


@pytest.mark.parametrize("text", [TEXT, "log config\n----\nno\n"])
def test_a_byte_order_mark_is_no_part_of_the_first_line(text: str) -> None:
    """The mark that editors on Windows write is ignored; a rewrite keeps it."""
    marked, plain = parse(f"\ufeff{text}", "x"), parse(text, "x")
    assert (marked.steps, marked.title) == (plain.steps, plain.title)
    printed = [["ok"]] * len(plain.steps)
    assert rewritten(marked, printed) == "\ufeff" + rewritten(plain, printed)


BROKEN = [
    ("\n\nlog config\n\n----\n", "x:3: `log` has no ----: put it on a line after the step"),
    ("log config\nbody", "x:1: `log` has no ----: put it on a line after the step"),
    ("roll w1 to=a to=b\n----\n", "x:1: to= is given twice: leave one"),
    ("given offsets topic=\na  b\n----\n", "x:1: topic= has no value: write topic=…"),
    ("log config\n----\nok\n# comment\n", "x:4: a comment needs a blank line before it"),
]


@pytest.mark.parametrize(("text", "message"), BROKEN)
def test_errors_name_file_and_line(text: str, message: str) -> None:
    """The error has file, line and advice."""
    with pytest.raises(BadScenario) as failure:
        parse(text, "x")
    assert str(failure.value) == message


_LINE = st.text('ab∅{}"\\ \t#=-\x0b\x85\u2028', min_size=1).filter(lambda line: line.strip())
_OUTPUT = _LINE.filter(lambda line: not line.startswith("#"))
_BLANK = st.sampled_from(["", " ", "\t"])


@st.composite
def files(draw: st.DrawFn) -> tuple[str, int]:
    """Text of a scenario and its number of steps, with any line ends and blank lines."""
    end = draw(st.sampled_from(["\n", "\r\n"]))
    lines, steps = [], draw(st.integers(0, 3))
    for _ in range(steps):
        comments = draw(st.lists(_LINE.map(lambda line: f"# {line}"), max_size=2))
        lines += [*comments, draw(_BLANK), draw(st.sampled_from(["view tasks", "log a=b"]))]
        lines += draw(st.lists(_LINE.filter(lambda line: line.rstrip() != "----"), max_size=2))
        lines += ["----", *draw(st.lists(_OUTPUT, max_size=3)), draw(_BLANK)]
    return end.join(lines) + end * draw(st.integers(0, 1)), steps


@given(files())
def test_rewriting_the_same_output_changes_nothing(file: tuple[str, int]) -> None:
    """A rewrite with the same output leaves the file equal to the byte."""
    text, steps = file
    scenario = parse(text, "x")
    assert len(scenario.steps) == steps
    assert rewritten(scenario, [step.expected for step in scenario.steps]) == text


@given(files(), st.lists(st.lists(_OUTPUT, min_size=1), min_size=3, max_size=3))
def test_rewriting_changes_expected_lines_alone(
    file: tuple[str, int], outputs: list[list[str]]
) -> None:
    """The file has the new output; rewriting the old output restores the first text."""
    text, steps = file
    before = parse(text, "x")
    after = parse(rewritten(before, outputs[:steps]), "x")
    assert [list(step.expected) for step in after.steps] == outputs[:steps]
    again = rewritten(after, [step.expected for step in before.steps])
    # A rewrite adds a line break to a last line that lacks it.
    assert again.rstrip("\r\n") == text.rstrip("\r\n")
    assert again.startswith(text.rstrip("\r\n"))

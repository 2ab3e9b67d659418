"""Hostile files give one sentence and exit code 2; nothing is sent."""

import pytest

from tests.cli.command_calls import refusal
from tests.client.client_calls import ClusterCalls

pytestmark = pytest.mark.slow

CONFIG = "config: {connector.class: FileStreamSource, topic: t}"


def multiplied(first: str, form: str) -> str:
    """YAML with 20 levels of aliases, each nine times the level before: 9**20 copies of `first`."""
    levels = [f"- &a0 {first}"]
    for level in range(1, 21):
        parts = ", ".join([f"*a{level - 1}"] * 9)
        levels.append(f"- &a{level} {form.format(parts)}")
    return "\n".join(levels)


HOSTILE = {
    "a list in itself": ("&a [*a]", "refers to itself"),
    "a map in itself": ("&a {config: *a}", "refers to itself"),
    "connectors in themselves": ("&a {connectors: *a}", "refers to itself"),
    "a value in itself": ("name: x\nconfig: &c {a: *c}", "refers to itself"),
    "a map merged into itself": ("&a {<<: *a, name: x}", "refers to itself"),
    "offsets in themselves": (f"name: x\n{CONFIG}\ninitial_offsets: &o [*o]", "refers to itself"),
    "lists of lists": (multiplied("[x, y]", "[{}]"), "aliases repeat more than"),
    "maps in maps": (multiplied("{name: x}", "{{connectors: [{}]}}"), "aliases repeat more than"),
    "merged maps": (multiplied("{k: v}", "{{<<: [{}]}}"), "aliases repeat more than"),
    "too deep": ("[" * 2_000 + "]" * 2_000, "cannot be parsed"),
    "a number to base 60": (f"name: x\nconfig: {{a: {'9:' * 3_000}9}}", "cannot be parsed"),
    "a number to base 16": (f"name: x\nconfig: {{a: 0x{'f' * 4_000}}}", "cannot be parsed"),
    "half a name": (f'name: "a\\ud800"\n{CONFIG}', "half of a surrogate pair"),
}


def _tier(command: str, number: int) -> tuple[pytest.MarkDecorator, ...]:
    """`make test` runs all cases with `apply`, and the first one with the other commands."""
    return () if command == "apply" or number == 0 else (pytest.mark.prove,)


@pytest.mark.parametrize(
    ("words", "case"),
    [
        pytest.param(words, case, marks=_tier(words[0], number))
        for words in (("apply", "-f"), ("diff", "-f"), ("bundle", "import"))
        for number, case in enumerate(HOSTILE)
    ],
)
def test_hostile_yaml_is_refused_in_a_sentence(
    case: str, words: tuple[str, ...], cluster: ClusterCalls
) -> None:
    """Recursive and multiplying aliases are refused, and names that are no text.

    A bundle is JSON, so YAML is refused as no bundle.
    """
    cluster.create()
    text, why = HOSTILE[case]
    message = refusal(cluster.ask(*words, cluster.file("connectors.yaml", text)))
    assert ("is no bundle (" if words[0] == "bundle" else why) in message


def test_aliases_that_repeat_a_little_are_taken(cluster: ClusterCalls) -> None:
    """Common settings may be written once, as YAML users do."""
    text = """
    - name: one
      config: &usual {connector.class: FileStreamSource, topic: lines}
    - name: two
      config: {<<: *usual, topic: other}
    """
    cluster.output("apply", "-f", cluster.file("two.yaml", text))
    assert cluster.json("describe", "two")["config"]["topic"] == "other"
    assert cluster.json("describe", "one")["config"]["topic"] == "lines"


@pytest.mark.parametrize("text", ["a\ud800", "\udcff"])
def test_a_name_with_half_a_surrogate_pair_is_refused(text: str, cluster: ClusterCalls) -> None:
    """A name with half a surrogate pair is refused, as no URL can hold it; a value may have one."""
    named = {"name": text, "config": {"connector.class": "FileStreamSource", "topic": "t"}}
    for words in ("apply", "diff"):
        sentence = cluster.refused(words, "-f", cluster.file("a.json", named), code=2)
        assert "half of a surrogate pair" in sentence
    valued = {"name": "b", "config": {**named["config"], "more": text}}  # type: ignore[dict-item]
    cluster.output("apply", "-f", cluster.file("b.json", valued))


@pytest.mark.parametrize(
    "words",
    [
        ("describe", "\udcff"),
        ("stop", "\udcff"),
        ("history", "a\ud800"),
        ("offsets", "get", "\udcff"),
        ("delete", "connector", "\udcff", "--yes"),
        ("get", "--as-of", "\udcff"),
        ("undo", "\udcff", "--to", "config@0"),
        ("watch", "\udcff"),
        ("watch", "--after", "\udcff"),
        ("describe", "plugin", "\udcff"),
        ("patch", "logger", "\udcff", "INFO"),
    ],
)
def test_an_argument_that_is_no_text_is_refused(
    words: tuple[str, ...], cluster: ClusterCalls
) -> None:
    """An argument of other bytes than UTF-8 is refused; shells pass on any bytes."""
    cluster.create()
    assert "does not exist" not in cluster.refused(*words, code=2)

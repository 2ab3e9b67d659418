"""Validators, found by their words, with Kafka's messages."""

import pytest

from controlplane.core.configdef.regex_errors import matches, pattern_error
from controlplane.core.configdef.validators import UnknownWords, check_valid, validator
from controlplane.core.configdef.value_parser import ConfigValue, InvalidValue, JavaClass

CONVERTER = "A concrete subclass of org.apache.kafka.connect.storage.Converter"
CONTROLS = "String may not contain control sequences but had the following ASCII chars"
CAST_TO = "[INT8, INT16, INT32, INT64, FLOAT32, FLOAT64, BOOLEAN, STRING]"
NO_PATTERN = 'Invalid regex: Cannot invoke "String.isEmpty()" because "this.pattern" is null'

TAKEN: list[tuple[str, ConfigValue]] = [
    ("[1,...]", 1),
    ("[1,...]", 2.5),
    ("[0,...] or null", None),
    ("[0.5,...,1.0]", 0.5),
    ("[0.5,...,1.0]", 1.0),
    ("[none, all]", "all"),
    ("[legacy, new]", ["new", "legacy"]),
    ("[legacy, new]", []),
    ("(case insensitive) [REQUIRED, REQUESTED]", "requested"),
    ("non-null string", ""),
    ("non-empty string", None),
    ("non-empty string", "a"),
    ("non-empty string without ISO control characters", None),
    ("non-empty string without ISO control characters", "a/b %{}\u2028"),
    ("valid regex", "a(b|c)*"),
    ("unique topic creation groups", ["a", "b"]),
    ("non-empty list", [""]),
    ("distinct values", []),
    ("distinct values, or null", None),
    ("distinct values of [a, b], at least one", ["b"]),
    (CONVERTER, None),
    (CONVERTER, JavaClass("trusted.Class")),
    (CONVERTER, JavaClass("j.Json", frozenset(("converter", "header_converter")))),
    ("rename mappings", ["a:b", "c:d"]),
    ("casting spec", ["a:int8", "b:string"]),
    ("casting spec", ["STRING"]),
]

REFUSED: list[tuple[str, ConfigValue, str]] = [
    ("[1,...]", None, "Invalid value null for configuration k: Value must be non-null"),
    ("[1,...]", 0, "Invalid value 0 for configuration k: Value must be at least 1"),
    ("[0.5,...,1.0]", 0.25, "Invalid value 0.25 for configuration k: Value must be at least 0.5"),
    ("[0,...,9]", 10, "Invalid value 10 for configuration k: Value must be no more than 9"),
    ("[0,...] or null", -5, "Invalid value -5 for configuration k: Value must be at least 0"),
    ("[none, all]", "x", "Invalid value x for configuration k: String must be one of: none, all"),
    (
        "[none, all]",
        None,
        "Invalid value null for configuration k: String must be one of: none, all",
    ),
    (
        "[legacy, new]",
        ["new", "old"],
        "Invalid value old for configuration k: String must be one of: legacy, new",
    ),
    (
        "(case insensitive) [V1, V2]",
        "v3",
        "Invalid value v3 for configuration k: String must be one of (case insensitive): V1, V2",
    ),
    ("non-null string", None, "Invalid value null for configuration k: entry must be non null"),
    ("non-empty string", "", "Invalid value  for configuration k: String must be non-empty"),
    (
        "non-empty string without ISO control characters",
        "",
        "Invalid value  for configuration k: String may not be empty",
    ),
    (
        "non-empty string without ISO control characters",
        "x\x01\x7f\x85",
        f"Invalid value x\x01\x7f\x85 for configuration k: {CONTROLS}: 1, 127, 133",
    ),
    ("valid regex", None, f"Invalid value null for configuration k: {NO_PATTERN}"),
    (
        "valid regex",
        "(",
        "Invalid value ( for configuration k: Invalid regex: Unclosed group near index 1\n(",
    ),
    (
        "unique transformation aliases",
        ["a", "a"],
        "Invalid value [a, a] for configuration k: Duplicate alias provided.",
    ),
    (
        "unique predicate aliases",
        None,
        "Invalid value null for configuration k: entry must be non null",
    ),
    ("non-empty list", [], "Invalid value [] for configuration k: Empty list"),
    ("distinct values", None, "Configuration 'k' values must not be null."),
    ("distinct values", ["a", "a"], "Configuration 'k' values must not be duplicated."),
    ("distinct values", ["a", ""], "Configuration 'k' values must not be empty."),
    (
        "distinct values, at least one",
        [],
        "Configuration 'k' must not be empty. Valid values include: any non-empty value",
    ),
    (
        "distinct values of [a, b], at least one",
        [],
        "Configuration 'k' must not be empty. Valid values include: [a, b]",
    ),
    (
        "distinct values of [a, b]",
        ["c"],
        "Invalid value c for configuration k: String must be one of: a, b",
    ),
    (
        CONVERTER,
        JavaClass("a.Sink", frozenset(("sink",))),
        "Class class a.Sink does not implement the Converter interface",
    ),
    (
        CONVERTER,
        JavaClass("a.Outer", nested=("a.Outer$Inner",)),
        "This class is abstract and cannot be created. Did you mean a.Outer$Inner?",
    ),
    (
        "rename mappings",
        ["a"],
        "Invalid value [a] for configuration renames: Invalid rename mapping: a",
    ),
    (
        "rename mappings",
        None,
        "Invalid value null for configuration renames: Invalid rename mapping: null",
    ),
    ("casting spec", [], "Must specify at least one field to cast."),
    (
        "casting spec",
        ["a:bytes"],
        f"Cast transformation does not support casting to BYTES; supported types are {CAST_TO}",
    ),
]


@pytest.mark.parametrize(("words", "value"), TAKEN)
def test_described_values_are_accepted(words: str, value: ConfigValue) -> None:
    """Values that the words describe are accepted."""
    check_valid("k", [words], value)


@pytest.mark.parametrize(("words", "value", "text"), REFUSED)
def test_other_values_are_refused(words: str, value: ConfigValue, text: str) -> None:
    """Other values are refused with this message."""
    with pytest.raises(InvalidValue) as refused:
        check_valid("k", [words], value)
    assert str(refused.value) == text


def test_the_first_refusal_ends_validation() -> None:
    """Later validators do not run after a refusal."""
    with pytest.raises(InvalidValue, match="non null"):
        check_valid("k", ["non-null string", "non-empty list"], None)


def test_unknown_words_describe_no_validator() -> None:
    """Words that no validator prints describe no validator."""
    with pytest.raises(UnknownWords, match="any value"):
        validator("any value")


ERRORS = [
    ("(", "Unclosed group near index 1\n("),
    (")", "Unmatched closing ')'\n)"),
    ("a)", "Unmatched closing ')' near index 0\na)\n^"),
    ("[", "Unclosed character class near index 0\n[\n^"),
    ("[]", "Unclosed character class near index 1\n[]\n ^"),
    ("[a[b]", "Unclosed character class near index 4\n[a[b]\n    ^"),
    ("[^]", "Unclosed character class near index 2\n[^]\n  ^"),
    ("*", "Dangling meta character '*' near index 0\n*\n^"),
    ("a**", "Dangling meta character '*' near index 2\na**\n  ^"),
    ("a|*", "Dangling meta character '*' near index 2\na|*\n  ^"),
    ("(*)", "Dangling meta character '*' near index 1\n(*)\n ^"),
    ("x???", "Dangling meta character '?' near index 3\nx???\n   ^"),
    ("(?=*)", "Dangling meta character '*' near index 3\n(?=*)\n   ^"),
    ("a\\", "Unexpected internal error near index 2\na\\"),
    ("((a)", "Unclosed group near index 4\n((a)"),
    ("(?:a", "Unclosed group near index 4\n(?:a"),
    ("(?x)a(", "Unclosed group near index 6\n(?x)a("),
    ("(?-x)a#(", "Unclosed group near index 8\n(?-x)a#("),
    ("\\c((", "Unclosed group near index 4\n\\c(("),
    ("[\\c]", "Unclosed character class near index 3\n[\\c]\n   ^"),
    ("\U0001f600(", "Unclosed group near index 2\n\U0001f600(\n  ^"),
    ("\U0001f600\\", "Unexpected internal error near index 2\n\U0001f600\\\n  ^"),
]
"""Patterns that Java 17 refuses, with its messages."""

PATTERNS = [
    *("(?<n>a)", "(?i)a", "[]a]", "[^]]", "\\Qa(", "x++", "x*+", "(?<=a)b", "a{1}{2}", "^*"),
    *("\\c(", "\\c)", "\\c[", "[\\c[]", "a\\c\\", "[^^]", "[[^^]]"),
    *("[\\Q[\\E]", "[\\Q]\\E]", "[\\Q\\E]]"),
    *("(?x)a # (c", "(?x)a # [c\nb", "(?ix)a # )", "(?x:a#(\n)"),
    "(?" + "x" * 200_000 + "#)",  # many minutes, if it took quadratic time
]
"""Patterns that Java 17 accepts."""


@pytest.mark.parametrize(("pattern", "text"), ERRORS)
def test_errors_of_patterns_are_javas(pattern: str, text: str) -> None:
    """The message for an invalid pattern is Java's."""
    assert pattern_error(pattern) == text


@pytest.mark.parametrize("pattern", PATTERNS)
def test_patterns_of_java_are_accepted(pattern: str) -> None:
    """A pattern that Java accepts is accepted here, too."""
    assert pattern_error(pattern) is None


def test_a_pattern_must_match_the_whole_text() -> None:
    """A pattern must match the whole text; a pattern that only Java can read matches nothing."""
    assert matches("a.*", "ab")
    assert not matches("a", "ab")
    assert matches("\\p{L}+", "ab")
    assert not matches("(a)\\1", "aa")

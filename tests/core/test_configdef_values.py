"""Parsed values of config keys, as Kafka 3.9.1 on Java 17 returned them."""

import pytest

from controlplane.core.configdef.key_definition import ConfigKey, Type
from controlplane.core.configdef.value_parser import (
    InvalidValue,
    JavaClass,
    Password,
    answer_text,
    parse,
    text_of,
)

NUMBERS: list[tuple[Type, str, str]] = [
    ("INT", "1", "1"),
    ("INT", "+1", "1"),
    ("INT", "-0", "0"),
    ("INT", "007", "7"),
    ("INT", " 5 ", "5"),
    ("INT", "2147483647", "2147483647"),
    ("INT", "-2147483648", "-2147483648"),
    ("INT", "\uff11\uff12", "12"),
    ("SHORT", "32767", "32767"),
    ("SHORT", "-32768", "-32768"),
    ("LONG", "9223372036854775807", "9223372036854775807"),
    ("LONG", " 12", "12"),
    ("DOUBLE", "1", "1.0"),
    ("DOUBLE", "-0.0", "-0.0"),
    ("DOUBLE", "1e3", "1000.0"),
    ("DOUBLE", "1E-2", "0.01"),
    ("DOUBLE", ".5", "0.5"),
    ("DOUBLE", "5.", "5.0"),
    ("DOUBLE", "NaN", "NaN"),
    ("DOUBLE", "Infinity", "Infinity"),
    ("DOUBLE", "-Infinity", "-Infinity"),
    ("DOUBLE", "1d", "1.0"),
    ("DOUBLE", "1.5F", "1.5"),
    ("DOUBLE", "0x1p3", "8.0"),
    ("DOUBLE", "1e400", "Infinity"),
    ("DOUBLE", "-0x1p99999", "-Infinity"),
]

TEXTS: list[tuple[Type, str, str]] = [
    ("BOOLEAN", "true", "true"),
    ("BOOLEAN", " TRUE ", "true"),
    ("BOOLEAN", "False", "false"),
    ("BOOLEAN", "true\x00", "true"),
    ("STRING", "", ""),
    ("STRING", " a b ", "a b"),
    ("STRING", "\x01x\x01", "x"),
    ("STRING", "\xa0x", "\xa0x"),
    ("LIST", "", ""),
    ("LIST", " ", ""),
    ("LIST", "a", "a"),
    ("LIST", "a,b", "a,b"),
    ("LIST", " a , b ", "a,b"),
    ("LIST", ",", ","),
    ("LIST", "a,,b", "a,,b"),
    ("LIST", "a b,c\td", "a b,c\td"),
    ("LIST", " a\n,\nb ", "a,b"),
]

WRONG: list[tuple[Type, str]] = [
    *(("INT", text) for text in ("2147483648", "1_0", "0x1", "", "1.0", "--1", "+")),
    *(("SHORT", text) for text in ("32768", "x")),
    *(("LONG", text) for text in ("9223372036854775808", "1L")),
    *(("DOUBLE", text) for text in ("", "abc", "1,5", "1e", "infinity", "1_000", "\u0663")),
]


def no_class(key: str, text: str) -> JavaClass | None:
    """Return None: the class path has no classes."""


@pytest.mark.parametrize(("kind", "text", "expected"), NUMBERS + TEXTS)
def test_texts_are_parsed_by_type(kind: Type, text: str, expected: str) -> None:
    """A text becomes a value of its key's type, and is shown in one form."""
    assert answer_text(parse(ConfigKey(name="k", type=kind), text, no_class)) == expected


@pytest.mark.parametrize(("kind", "text"), WRONG)
def test_texts_that_are_no_number_are_refused(kind: Type, text: str) -> None:
    """A text that is no number of its type is refused, and quoted unchanged."""
    with pytest.raises(InvalidValue) as refused:
        parse(ConfigKey(name="k", type=kind), text, no_class)
    message = f"Invalid value {text} for configuration k: Not a number of type {kind}"
    assert str(refused.value) == message


@pytest.mark.parametrize("text", ["yes", "", "1"])
def test_texts_that_are_no_boolean_are_refused(text: str) -> None:
    """Only two words are booleans; any other text is refused."""
    with pytest.raises(InvalidValue, match="Expected value to be either true or false"):
        parse(ConfigKey(name="k", type="BOOLEAN"), text, no_class)


def test_messages_show_lists_in_brackets() -> None:
    """A message shows a list in brackets; an empty text is an empty list."""
    key = ConfigKey(name="k", type="LIST")
    assert parse(key, "a,,b,", no_class) == ["a", "", "b", ""]
    assert text_of(parse(key, "a , b", no_class)) == "[a, b]"
    assert parse(key, "", no_class) == []


def test_passwords_are_hidden_in_texts() -> None:
    """A password is hidden in every text and message."""
    secret = parse(ConfigKey(name="k", type="PASSWORD"), " s3cret ", no_class)
    assert secret == Password("s3cret")
    assert answer_text(secret) == text_of(secret) == "[hidden]"


def test_class_names_are_looked_up() -> None:
    """Class names are looked up unchanged; a missing class is refused."""
    key = ConfigKey(name="k", type="CLASS")
    parsed = parse(key, " a.B ", lambda _, text: JavaClass(text.strip()))
    assert answer_text(parsed) == "a.B"
    assert text_of(parsed) == "class a.B"
    with pytest.raises(InvalidValue) as refused:
        parse(key, " a.B ", no_class)
    assert str(refused.value) == (
        "Invalid value  a.B  for configuration k: Class  a.B  could not be found."
    )


def test_null_is_valid_for_any_type() -> None:
    """Null is valid for any type."""
    assert parse(ConfigKey(name="k", type="INT"), None, no_class) is None
    assert answer_text(None) is None
    assert text_of(None) == "null"

"""Definitions of config keys by authors."""

from typing import Any

import pytest

from controlplane.connect import key


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"type": 0},
            "key 'n' has the type 0, not one of BOOLEAN, STRING, INT, SHORT, LONG, DOUBLE, LIST, ",
        ),
        ({"type": "int"}, "key 'n' has the type 'int', not one of BOOLEAN"),
        ({"type": ["INT"]}, "key 'n' has the type ['INT'], not one of BOOLEAN"),
        ({"importance": "high"}, "key 'n' has the importance 'high', not one of HIGH, MEDIUM, LOW"),
    ],
)
def test_an_unknown_type_or_importance_is_refused(arguments: dict[str, Any], message: str) -> None:
    """The error arises in the author's line, when the module is imported."""
    with pytest.raises(TypeError) as refused:
        key("n", **arguments)
    assert str(refused.value).startswith(message)


def test_a_default_in_the_place_of_the_type_is_explained() -> None:
    """The message says where the default belongs."""
    with pytest.raises(TypeError, match=r"Pass a default as the third argument, or by name"):
        key("n", 0)  # type: ignore[arg-type] # the mistake of the test


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"type": "INT", "valid": "[1,9]"},
            (
                "key 'n' has the type INT, but valid='[1,9]' lists texts: write a range, for "
                "example '[1,...]' or '[1,...,9]'"
            ),
        ),
        (
            {"valid": "[none,all]"},
            (
                "key 'n' has the type STRING, but valid='[none,all]' lacks a space after a comma: "
                "write for example '[none, all]'"
            ),
        ),
        (
            {"valid": ("non-empty string", "[1,...]")},
            "key 'n' has the type STRING, but valid='[1,...]' is a range of numbers",
        ),
        (
            {"type": "BOOLEAN", "valid": "[true, false]"},
            (
                "key 'n' has the type BOOLEAN, but valid='[true, false]' lists texts, which only a "
                "STRING or a LIST can have"
            ),
        ),
        (
            {"type": "DOUBLE", "default": 1, "valid": "[1.2.3,...]"},
            (
                "key 'n' has the type DOUBLE, but valid='[1.2.3,...]' lists texts: write a range, "
                "for example '[1,...]' or '[1,...,9]'"
            ),
        ),
        (
            {"type": "LIST", "valid": "(case insensitive) [A]"},
            "key 'n' has the type LIST, but valid='(case insensitive) [A]' fits a STRING only",
        ),
        (
            {"type": "INT", "default": 3, "valid": "valid regex"},
            "key 'n' has the type INT, but valid='valid regex' fits a STRING only",
        ),
        (
            {"valid": "distinct values of [ab, b]"},
            (
                "key 'n' has the type STRING, but valid='distinct values of [ab, b]' fits a LIST "
                "only"
            ),
        ),
        (
            {"type": "INT", "default": 10, "valid": "[1,...,9]"},
            (
                "The default of key 'n': Invalid value 10 for configuration n: Value must be no "
                "more than 9"
            ),
        ),
        (
            {"type": "INT", "valid": "[9,...,1]"},
            (
                "key 'n' has the type INT, but valid='[9,...,1]' is an empty range: write the "
                "lower number first"
            ),
        ),
        (
            {"valid": "(case insensitive) [none, ALL]"},
            (
                "key 'n' has the type STRING, but valid='(case insensitive) [none, ALL]' has lower "
                "case, but values are compared in upper case: write upper case"
            ),
        ),
        (
            {"type": "INT", "default": "ten"},
            (
                "The default of key 'n': Invalid value ten for configuration n: Not a number of "
                "type INT"
            ),
        ),
    ],
)
def test_valid_values_that_do_not_fit_are_refused(arguments: dict[str, Any], message: str) -> None:
    """The author sees the error, not the user whose config is refused."""
    with pytest.raises(ValueError, match=r"key 'n'") as refused:
        key("n", **arguments)
    assert str(refused.value) == message


@pytest.mark.parametrize(
    "arguments",
    [
        {"type": "INT", "default": 9, "valid": "[1,...,9]"},
        {"type": "LONG", "default": None, "valid": "[-1,...] or null"},
        {"type": "DOUBLE", "default": 0.5, "valid": "[1.0E-5,...]"},
        {"default": "all", "valid": "[none, all]"},
        {"default": "Base64", "valid": "(case insensitive) [BASE64, NUMERIC]"},
        {"type": "LIST", "default": ["a", "b"], "valid": "distinct values of [a, b], at least one"},
        {"default": "(", "valid": "an odd text"},
    ],
)
def test_valid_values_that_fit_are_kept(arguments: dict[str, Any]) -> None:
    """Unknown words are refused when a worker loads the class."""
    assert key("n", **arguments).valid == (arguments["valid"],)

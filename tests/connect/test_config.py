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
    with pytest.raises(TypeError, match=r"A default is the third argument, or has its name"):
        key("n", 0)  # type: ignore[arg-type] # the mistake of the test

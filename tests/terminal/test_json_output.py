"""JSON on standard output has the layout of Python's `json`."""

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from controlplane.terminal.output import print_json

TEXTS = st.text(st.characters(codec="utf-8") | st.sampled_from("\ud800\udfff"), max_size=5)
SCALARS = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
)
DOCUMENTS = st.recursive(
    SCALARS | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(DOCUMENTS)
def test_the_layout_is_that_of_the_standard_library(
    capsys: pytest.CaptureFixture[str], document: Any
) -> None:
    """Any document is printed as `json.dumps` indents it; a lone surrogate is an escape."""
    print_json(document)
    printed = capsys.readouterr().out
    expected = json.dumps(document, indent=2, ensure_ascii=False) + "\n"
    assert printed == expected.encode("utf-8", "backslashreplace").decode()

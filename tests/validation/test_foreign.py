"""Validation answers every config, also one from a foreign record in the log."""

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.core.context import Context
from controlplane.core.plan import Reason, Rejected
from controlplane.core.validation import ValidationFailure, refusal, validate
from tests.validation.answers import context_of
from tests.validation.cases import SINK, SOURCE, ConfigBody, cases

CONTEXTS = tuple(map(context_of, ("0.9.0", "2.8.2", "3.9.1", "4.3.0")))
CONFIGS = tuple(cases())
KEYS = tuple(sorted({key for config in CONFIGS for key in config}))

values = st.one_of(
    st.sampled_from((None, True, 5, 1.5, "", ",", "((", "\x00", "\ud800", [], ["a"], {"a": None})),
    st.text(max_size=5),
)


@given(
    config=st.sampled_from(CONFIGS),
    changes=st.dictionaries(st.sampled_from(KEYS), values, max_size=3),
    context=st.sampled_from(CONTEXTS),
)
def test_everything_is_answered(
    config: ConfigBody, changes: dict[str, Any], context: Context
) -> None:
    """Every config gets an answer, and is refused exactly if it has errors."""
    changed = config | changes
    result = validate(changed, context)
    refused = refusal(changed, context)
    is_wrong = isinstance(result, ValidationFailure) or result.error_count > 0
    assert (refused is not None) == is_wrong


@pytest.mark.parametrize(
    ("config", "key", "value", "message"),
    [
        (SOURCE, "tasks.max", 2, None),
        (SOURCE, "tasks.max", 0, "Invalid value 0 for configuration tasks.max"),
        (SOURCE, "tasks.max", 1.5, "Invalid value 1.5 for configuration tasks.max"),
        (SOURCE, "errors.log.enable", True, None),
        (SOURCE, "errors.tolerance", ["all"], "Invalid value [all] for configuration errors."),
        (SINK, "topics", {"a": 1}, None),
    ],
)
def test_other_values_are_converted_to_text(
    config: Mapping[str, Any], key: str, value: object, message: str | None
) -> None:
    """A value that is no text is converted as in Java."""
    refused = refusal({**config, key: value}, context_of("3.9.1"))
    if message is None:
        assert refused is None
    else:
        assert isinstance(refused, Rejected)
        assert refused.reason is Reason.INVALID
        assert message in (refused.text or "")


def test_a_null_under_a_key_that_the_release_lacks_is_refused() -> None:
    """`connector.plugin.version` came with 4.1; 3.9 refuses its null like that of any key."""
    result = validate({**SOURCE, "connector.plugin.version": None}, context_of("3.9.1"))
    assert not isinstance(result, ValidationFailure)
    assert result.error_count == 1

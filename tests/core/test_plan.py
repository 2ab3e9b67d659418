"""Texts of refusals: every reason has one."""

import pytest

from controlplane.core.plan import Reason, Rejected


@pytest.mark.parametrize("reason", Reason)
def test_every_refusal_has_a_sentence(reason: Reason) -> None:
    """A refusal without a text gets the sentence of its reason."""
    assert len(Rejected(reason, None).sentence.split()) >= 4
    assert Rejected(reason, "told").sentence == "told"

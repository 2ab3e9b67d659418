"""Texts of refusals: every reason has one."""

import pytest

from controlplane.core.plan import Reason, Rejected


@pytest.mark.parametrize("reason", Reason)
def test_every_refusal_has_a_sentence(reason: Reason) -> None:
    """Each refusal has a sentence, also if a worker has none."""
    assert len(Rejected(reason, None).sentence.split()) >= 4
    assert Rejected(reason, "told").sentence == "told"

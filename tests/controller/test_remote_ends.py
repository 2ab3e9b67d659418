"""Ends of an offsets topic on another cluster, whose transactions are awaited."""

import pytest

from controlplane.controller.remote_offsets import _reached


@pytest.mark.parametrize(("stable", "is_reached"), [([7, 3], True), ([6, 3], False)])
def test_a_later_partition_is_not_awaited(stable: list[int], is_reached: bool) -> None:
    """The topic gets a partition between the two requests."""
    assert _reached({"offsets": stable}, {"offsets": [7]}, "offsets") is is_reached

"""Differing parts of two answers, as the report of `verify --against` names them."""

from collections.abc import Mapping
from typing import Any, ClassVar

from controlplane.cli.verify.worker_check.check_report import differing_members

OFFSETS = 300


class ComparedOffset(dict[str, Any]):
    """Offset that counts the comparisons with others."""

    comparisons: ClassVar[int] = 0
    __hash__ = None

    def __eq__(self, other: object) -> bool:
        """Count, and compare as a dict does."""
        ComparedOffset.comparisons += 1
        return super().__eq__(other)


def listed(position: int) -> Mapping[str, Any]:
    """Answer with many offsets, all at this position."""
    partitions = [{"file": str(number)} for number in range(OFFSETS)]
    return {
        "offsets": [
            ComparedOffset(partition=partition, offset={"position": position})
            for partition in partitions
        ]
    }


def test_the_work_grows_with_the_number_of_offsets_not_with_its_square() -> None:
    """Each differing offset is found without a comparison with every other one."""
    first, *others = differing_members("", listed(1), listed(2))
    assert first == 'offsets.partition {"file": "0"}.offset.position 1 → 2'
    assert len(others) == OFFSETS - 1
    assert ComparedOffset.comparisons <= 10 * OFFSETS

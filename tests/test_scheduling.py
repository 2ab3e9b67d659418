"""Groups of tests that run in one process."""

import pytest

from tests import scheduling
from tests.kafka.conftest import RELEASES
from tests.scheduling import group_of, rank_of, waits

OLD, NEW = (f"tests/kafka/{release}" for release in RELEASES)


def test_the_releases_are_those_of_the_brokers() -> None:
    """Each shared broker has a group of tests."""
    assert scheduling.RELEASES == RELEASES


@pytest.mark.parametrize(
    ("node", "group"),
    [
        ("tests/kafka/test_reader.py::test_a[3.9.1]", OLD),
        ("tests/kafka/test_reader.py::test_a[4.3.0]", NEW),
        ("tests/kafka/test_tail.py::test_b[name-4.3.0-2]", NEW),
        ("tests/kafka/test_error_codes.py::test_names", OLD),
        ("tests/kafka/test_contract.py::test_a[4.3.0]", "tests/kafka/test_contract.py"),
        ("tests/replay/spark/test_feed.py::test_a", "tests/replay/spark/"),
        (
            "tests/oracle/test_oracle.py::test_a[3.9.1]",
            "tests/oracle/test_oracle.py::test_a[3.9.1]",
        ),
        ("tests/core/test_edges.py::test_a[3.9.1]", "tests/core/test_edges.py"),
    ],
)
def test_tests_with_one_broker_share_a_group(node: str, group: str) -> None:
    """Tests with one broker or one session of Spark share a group; others share their module."""
    assert group_of(node) == group


@pytest.mark.parametrize("group", [OLD, NEW])
def test_tests_with_a_shared_broker_begin_early(group: str) -> None:
    """Groups with a shared broker mostly wait; they begin before modules with their own brokers."""
    assert waits(group)
    assert rank_of("tests/replay/spark/") < rank_of(group) < rank_of("tests/kafka/test_migrate.py")

"""The names of a cluster's topics."""

from itertools import combinations

import pytest

from controlplane.core.state import SharedTopic, Topics, check_topics


@pytest.mark.parametrize(("one", "other"), list(combinations(Topics.__struct_fields__, 2)))
def test_one_topic_is_not_two(one: str, other: str) -> None:
    """Records of one would be read as those of the other."""
    told = f"x cannot be the {one} topic and the {other} topic: give each a name of its own"
    with pytest.raises(SharedTopic, match=told):
        check_topics(Topics(**{one: "x", other: "x"}))


def test_each_has_its_own() -> None:
    """As they are by default."""
    check_topics(Topics())

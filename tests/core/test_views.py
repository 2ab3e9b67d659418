"""Views of states that no worker would write."""

import pytest

from controlplane.core import views
from controlplane.core.diff import diff
from controlplane.core.hazards import Danger, hazards
from controlplane.core.profiles import Profile
from controlplane.rest.reads import Reading, answer
from tests.core.logs import config, connector, read


@pytest.mark.parametrize("release", ["2.5", "3.9", "kip"])
def test_a_count_that_nobody_can_list(release: str) -> None:
    """A foreign hand commits 2**31 - 1 tasks: told as a failure, not by running out of memory."""
    log = config(connector("a"), ("task-a-0", '{"properties":{}}'), ("commit-a", '{"tasks":1}'))
    one = log[2]
    huge = [*log, type(one)(one.topic, 0, 3, one.timestamp + 1, one.key, b'{"tasks":2147483647}')]
    state = read(huge, release)
    with pytest.raises(views.ReadFailed, match="more than a worker can list"):
        views.task_configs(state, "a")
    assert answer(Reading(state), "/connectors/a/tasks").status == 500
    assert answer(Reading(state), "/connectors/a").status == 200  # inconsistent: none is listed
    assert diff(state, state) == []
    assert Danger.READ_FAILS not in [one.danger for one in hazards(huge, Profile.of(release))]

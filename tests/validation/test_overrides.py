"""Client overrides in the answer to a config have a worker's order."""

import pytest

from controlplane.core.validation import Validation, validate
from tests.validation.answers import context_of
from tests.validation.cases import SINK, SOURCE, ConfigBody

CLIENTS = ("producer", "consumer", "admin")
OVERRIDDEN: ConfigBody = {f"{client}.override.client.id": "x" for client in reversed(CLIENTS)}
USES_ALL: tuple[ConfigBody, ...] = (
    SINK | {"errors.deadletterqueue.topic.name": "dead"},
    SOURCE | {"topic.creation.default.partitions": "1", "offsets.storage.topic": "own"},
)


@pytest.mark.parametrize("release", ["3.9.1", "4.3.0"])
@pytest.mark.parametrize("config", USES_ALL, ids=["sink", "source"])
def test_consumer_overrides_are_listed_before_admin_overrides(
    config: ConfigBody, release: str
) -> None:
    """A worker checks them in another order than it lists them (`tests/kafka/test_harvest.py`)."""
    result = validate(config | OVERRIDDEN, context_of(release))
    assert isinstance(result, Validation)
    names = [setting.value.name for setting in result.configs]
    clients = [name.partition(".")[0] for name in names if ".override." in name]
    assert clients == list(CLIENTS)

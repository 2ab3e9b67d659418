"""Keys of task configs, which may contain no value of a config provider."""

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import pytest

from controlplane.connect import Source, key
from controlplane.connect.errors import ConnectError
from controlplane.connect.source import SourceRun
from controlplane.core.commands import CreateConnector
from controlplane.settings.providers import Providers
from controlplane.worker.config_resolver import ConfigResolver
from tests.worker.worker_fixture import config_of, running, until_state

SECRET = "pa$$'w\\örd-0815"

CONFIG = {"password": "${env:PASSWORD}"}


def providers(**variables: str) -> Providers:
    """Kafka's provider of environment variables, with these variables."""
    environment = "org.apache.kafka.common.config.provider.EnvVarConfigProvider"
    return Providers({"env": environment}, variables)


@pytest.mark.parametrize("task_key", [SECRET, f"table.{SECRET}", json.dumps(SECRET)])
def test_a_key_with_a_value_is_refused(task_key: str) -> None:
    """No reference can stand in a key. The message shows no value."""
    resolver = ConfigResolver(providers(PASSWORD=SECRET))
    with pytest.raises(ConnectError, match="of a task config contains a value") as failure:
        resolver.referring(CONFIG, [{"topic": "t"}, {task_key: "on"}])
    assert "0815" not in str(failure.value)


@pytest.mark.parametrize(
    ("value", "task_key", "is_refused"),
    [
        ("secret-8", "table.secret-8", True),
        ("secret7", "table.secret7", False),
        ("publish\n", "publish.mode", False),
        ("p\\w\\d\\12", repr("p\\w\\d\\12"), True),
        ("größe-ß", repr("größe-ß".encode()), False),
    ],
)
def test_the_length_of_the_value_counts(value: str, task_key: str, *, is_refused: bool) -> None:
    """The length of the value counts, and not that of its form in the key."""
    refusal: AbstractContextManager[Any] = pytest.raises(ConnectError)
    with refusal if is_refused else nullcontext():
        ConfigResolver(providers(PASSWORD=value)).referring(CONFIG, [{task_key: "on"}])


def test_keys_of_the_connector_and_its_class_stay() -> None:
    """The log has the key already, or it is in the source code."""
    resolver, task_configs = ConfigResolver(providers(PASSWORD=SECRET)), [{SECRET: "on"}]
    assert resolver.referring(CONFIG | {SECRET: "off"}, task_configs) == task_configs
    assert resolver.referring(CONFIG, task_configs, [SECRET]) == task_configs


class Publishing(Source):
    """Source with defaults and a key of its own, which contain provided values."""

    config = (key("publication.name", default="p"), key("kind", default="publication"))

    def split(self, config: Any, limit: int) -> Sequence[Any]:
        """Return one config, with a changed default and with another key."""
        del limit
        return [{**config, "publication.name": "changed", "schema.table": "t"}]

    async def read(self, task: SourceRun) -> AsyncIterator[Any]:
        """Wait without records."""
        while True:
            yield task.idle(0.01)


async def test_common_words_may_be_values() -> None:
    """Any key may contain a short value by chance; a key of the class may contain any value."""
    config = config_of(Publishing, kind_of="${env:A}", db="${env:B}")
    words = providers(A="publication", B="schema")
    async with running(Publishing, providers=words) as worker:
        await worker.plane.execute(CreateConnector("s", config))
        await until_state(worker, "s", "RUNNING", "RUNNING")
        stored = worker.plane.state.config.tasks["s"][0]
    assert stored["publication.name"] == "changed"
    assert stored["schema.table"] == "t"
    assert stored["kind.of"] == "${env:A}"
    assert "kind" not in stored, "the default is not stored"

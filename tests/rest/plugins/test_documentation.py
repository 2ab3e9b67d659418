"""Documentation in a catalogue file changes nothing but the documentation in answers."""

import json

import pytest

from controlplane.plugins import kafkas_own
from tests.rest.plugins.test_recordings import listed, ours

RELEASES = ("2.3.1", "2.8.2", "3.9.1", "4.3.0")
SENTENCE = "Of another plugin."


def documented(release: str) -> bytes:
    """A catalogue with a different sentence for every setting of Kafka's own."""
    own = kafkas_own()
    scopes = {scope: list(keys) for scope, keys in own.definitions.items()}
    for plugin in own.plugins:
        name = plugin.class_name.removesuffix("$Key").removesuffix("$Value")
        scopes.setdefault(name, []).extend(plugin.config or ())
    texts = {scope: {key.name: SENTENCE for key in keys} for scope, keys in scopes.items()}
    return json.dumps({"plugins": listed(release), "documentation": texts}).encode()


@pytest.mark.parametrize("release", RELEASES)
async def test_no_answer_but_documentation_changes(release: str) -> None:
    """Answers about plugins, configs and loggers differ in the documentation only."""
    plain = await ours(release, json.dumps(listed(release)).encode())
    other = await ours(release, documented(release))
    assert [answer.without_documentation() for answer in other] == [
        answer.without_documentation() for answer in plain
    ]
    pairs = [
        (answer, another)
        for answer, another in zip(plain, other, strict=True)
        if answer.documentation
    ]
    assert pairs
    assert [
        answer.text for answer, another in pairs if answer.documentation == another.documentation
    ] == []

"""Options of `serve --own`: contradictions are refused before anything starts."""

import pytest

from tests.cli.command_calls import call, refusal

CLUSTER = "kafka://localhost:9092"


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("state.db",), "state.db is no cluster: serve kafka://BROKER:9092, or leave out --own"),
        (("http://alice:secret@w1:8083",), "and http://w1:8083 is no cluster: serve kafka://"),
        ((CLUSTER, "--read-only"), "leave out --read-only and --no-follow"),
        ((CLUSTER, "--no-follow"), "leave out --read-only and --no-follow"),
        ((CLUSTER, "--connect-url", "http://w1:8083"), "exclude each other"),
        ((CLUSTER, "--override", "connect.url=http://w1:8083"), "exclude each other"),
        (("kafka://alice:secret@localhost:9092",), "is given with a login"),
        (("kafka://",), "no broker is named"),
    ],
)
def test_contradictions_are_refused(words: tuple[str, ...], sentence: str) -> None:
    """Each contradiction gives one sentence and exit code 2."""
    message = refusal(call("serve", "--own", "--port", "0", *words))
    assert sentence in message
    assert "secret" not in message

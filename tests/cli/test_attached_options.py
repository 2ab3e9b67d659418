"""Options of `serve` about workers: contradictions are refused before anything starts."""

from pathlib import Path

import pytest

from controlplane.cli.serve.attached_options import attached_settings
from controlplane.settings import Configuration
from controlplane.settings.sources import flag_values
from tests.cli.command_calls import call

CLUSTER = "kafka://localhost:9092"


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        *(
            (("serve", CLUSTER, option, ""), f"'{option}': it is empty: give a value")
            for option in ("--connect-url", "--connect-user", "--connect-token", "--trail")
        ),
        (("serve", CLUSTER, "--trail", "sqlite:///t.db"), "need workers: name them by --connect-u"),
        (
            ("serve", "http://ada:xyzzy@w1", "--connect-url", "http://w1"),
            "as LOG, and http://w1 is no cluster: serve kafka://BROKER:9092",
        ),
        (
            ("serve", "state.db", "--connect-url", "http://w1"),
            "state.db is no cluster: serve kafka://",
        ),
        (
            ("serve", CLUSTER, "--connect-url", "http://w1", "--read-only"),
            "leave out --read-only and --no-follow",
        ),
        (("serve", CLUSTER, "--connect-url", "w1:8083"), "w1:8083 is no URL of a worker"),
        (
            ("serve", CLUSTER, "--connect-url", "http://w1", "--connect-token", "two words"),
            "this is no token",
        ),
        (
            (
                *("serve", CLUSTER, "--connect-url", "http://w1"),
                *("--connect-user", "ada:x", "--connect-token", "t"),
            ),
            "connect.user and connect.token exclude each other: give one of them",
        ),
        (
            (
                *("serve", CLUSTER, "--connect-url", "http://w1"),
                *("--override", "upkeep.retention.commands.ms=0"),
            ),
            "upkeep.retention.commands.ms is '0': use -1 or a whole number from 1",
        ),
    ],
)
def test_contradictions_are_refused(words: tuple[str, ...], sentence: str) -> None:
    """Each contradiction gives one sentence and exit code 2."""
    result = call(*words, "--port", "0")
    assert result.code == 2
    assert sentence in result.err


def test_a_password_is_asked_for_once() -> None:
    """All workers get the password that was typed once."""
    urls = "http://127.0.0.1:1,http://127.0.0.1:2"
    words = ("--connect-url", urls, "--connect-user", "ada", "--override", "connect.patience.ms=1")
    result = call("serve", CLUSTER, *words, "--port", "0", typed="pw\n")
    assert (result.code, result.err.count("password of ada: ")) == (2, 1), result.err


def test_flags_beat_settings(tmp_path: Path) -> None:
    """URLs are split at commas; flags beat `connect.*` settings."""
    settings = [("--override", "connect.url", "http://a"), ("--override", "connect.retry.ms", "7")]
    configuration = Configuration(flag_values(settings))
    flags = {"url": "http://w1:8083, http://w2:8083", "ca_file": tmp_path / "ca.pem"}
    made = attached_settings(CLUSTER, configuration, flags)
    assert made is not None
    assert made.url == ("http://w1:8083", "http://w2:8083")
    assert (made.ca_file, made.retry_ms) == (str(tmp_path / "ca.pem"), 7)
    assert attached_settings(CLUSTER, Configuration(), {}) is None


def test_the_help_names_both_ways_to_write_to_a_cluster() -> None:
    """Without workers, kafka:// is only read, unless `--own` is given."""
    help_text = " ".join(call("serve", "--help").out.split())
    assert "without it and without --own, kafka:// is only read" in help_text

"""Secrets in source offsets: most offsets are searched as a whole, the others field by field."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.core.text.escaped_text import has_escapes
from replay.audit import audit
from replay.audit.kinds.secrets_in_clear import ESCAPE_MARKS, secrets_of
from tests.replay.audit.planted_log import PlantedLog

OFFSETS: dict[str, dict[str, Any]] = {
    "plain": {"file": "binlog.000001", "pos": 17, "snapshot": True, "gtid": None},
    "key": {"password": "x1"},
    "number under a key": {"pin_token": 1},
    "URL": {"at": "https://scott:tiger1@host/db"},
    "percent": {"at": "https://host/?pass%77ord=abc1"},
    "escaped name": {"p\u0430\u017fsword": "x1"},
    "long s": {"note": "pa\u017f\u017fword=x1"},
    "quotes": {"note": '{"password": "x1"}'},
    "reference": {"password": "${file:/etc/secrets:db1}"},
    "digits within": {"to1ken": "x1"},
    "words near secrets": {"key": 1, "author": "basic"},
    "long": {"note": "x1" * 1_000, "password": "x1"},
}


@pytest.mark.parametrize("offset", OFFSETS.values(), ids=list(OFFSETS))
def test_each_secret_in_an_offset_is_found(offset: dict[str, Any]) -> None:
    """A finding names the offset exactly if one of its fields is a secret."""
    log = PlantedLog().running("a").offset("a", {"pos": 1}).offset("a", offset)
    findings = audit([log.cluster("lab")])
    sentences = [each.sentence for each in findings if each.kind == "secret-in-clear"]
    expected = ["a has secrets in clear text in a source offset"] if secrets_of(offset) else []
    assert sentences == expected


def test_some_of_these_offsets_have_secrets() -> None:
    """The cases include offsets with and without secrets."""
    secret = {name for name, offset in OFFSETS.items() if secrets_of(offset)}
    assert {"key", "number under a key", "URL", "percent", "quotes", "long"} <= secret
    assert not {"plain", "reference", "digits within"} & secret


@given(text=st.text().filter(lambda text: not any(map(text.encode("utf-8").count, ESCAPE_MARKS))))
def test_a_text_without_these_bytes_has_no_escapes(text: str) -> None:
    """Every escape needs one of the bytes."""
    assert not has_escapes(text)

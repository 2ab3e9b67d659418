"""Excerpts of texts: without values of config providers, and short."""

import json
import re
from collections.abc import Callable

import pytest

from controlplane.failure_text import MAX_CHARACTERS, shortened
from controlplane.settings.providers import Providers, ResolvedText
from controlplane.worker import config_resolver
from controlplane.worker.config_resolver import (
    FORMS_KEPT,
    LINES_HIDDEN,
    VALUES_KEPT,
    ConfigResolver,
)
from controlplane.worker.secret_index import (
    ESCAPE_CHARACTERS,
    SEARCHED_CHARACTERS,
    SecretIndex,
    Span,
    forms_of,
)

pytestmark = pytest.mark.slow

LONG_SECRET = "".join(f"<{number}>" for number in range(12))
ENDS = MAX_CHARACTERS // 2


def resolver_with(*values: str) -> ConfigResolver:
    """Resolver that has provided values, all in one config value."""
    environment = "org.apache.kafka.common.config.provider.EnvVarConfigProvider"
    variables = {f"VALUE{number}": value for number, value in enumerate(values)}
    resolver = ConfigResolver(Providers({"env": environment}, variables))
    resolver.resolved({"passwords": " ".join(f"${{env:{name}}}" for name in variables)})
    return resolver


@pytest.mark.parametrize("cut", [ENDS, ENDS + len(LONG_SECRET)])
def test_no_part_of_a_value_is_shown_at_a_cut(cut: int) -> None:
    """The value begins at each place near a cut, counted from the start or from the end."""
    resolver = resolver_with(LONG_SECRET)
    for before in range(cut - len(LONG_SECRET) - 2, cut + 2):
        for text in (
            "a" * before + LONG_SECRET + "b" * MAX_CHARACTERS * 2,
            "a" * MAX_CHARACTERS * 2 + LONG_SECRET + "b" * before,
        ):
            excerpt = resolver.excerpt(text)
            assert "<" not in excerpt
            assert len(excerpt) < MAX_CHARACTERS + 100


@pytest.mark.parametrize("escape", [json.dumps, lambda text: repr(text.encode())])
@pytest.mark.parametrize("times", [1, 2, 3])
def test_no_part_of_a_much_escaped_value_is_shown_at_a_cut(
    escape: Callable[[str], str], times: int
) -> None:
    """Each character of the value takes 12 to 28 characters of the text."""
    value = escaped = "\N{GRINNING FACE}" * SEARCHED_CHARACTERS
    for _ in range(times):
        escaped = escape(escaped)
    resolver = resolver_with(value)
    for before in (ENDS - 1_000, ENDS - 10):
        after = "a" * (before + MAX_CHARACTERS)
        for text in ("a" * before + escaped + after, after + escaped + "a" * before):
            assert not re.search("d83d|xf0", resolver.excerpt(text))


def test_a_value_beyond_the_ends_leaves_them() -> None:
    """A value just before the shown end changes nothing: the excerpt is that of `shortened`."""
    text = "a" * MAX_CHARACTERS + LONG_SECRET + "b" * (ENDS + 1)
    assert resolver_with(LONG_SECRET).excerpt(text) == shortened(text)


def test_no_part_of_a_repeated_value_is_shown() -> None:
    """The text consists of values without gaps, so each cut may split one of them."""
    for value in (LONG_SECRET, LONG_SECRET * 2_000):
        assert "<" not in resolver_with(value).excerpt(value * (1_000_000 // len(value)))


def test_no_part_of_a_value_with_a_shorter_one_inside_is_shown() -> None:
    """The short value is shorter than `[hidden]`. The cut must leave out all of the split value."""
    value = "<>" + "abc" * 20
    assert "<" not in resolver_with(value, "abc").excerpt(value * 20_000)


@pytest.mark.parametrize("value", ["hunter2!hunter2!", "abc123" * 3])
def test_no_part_of_a_value_that_repeats_itself_is_shown(value: str) -> None:
    """The text consists of the value only; each end is searched from its own side."""
    excerpt = resolver_with(value).excerpt(value * 10_000)
    start, gap, end = excerpt.split("\n")
    assert gap.endswith("characters left out …")
    assert {*start, *end} == {*"[hidden]"}


def test_a_long_value_leaves_the_ends_of_other_texts() -> None:
    """A value that is longer than an excerpt takes nothing from a text that lacks it."""
    text = "".join(map(str, range(200_000)))
    assert resolver_with("s" * 40_000).excerpt(text) == shortened(text)


def test_the_lines_of_a_value_are_hidden_up_to_a_limit() -> None:
    """Each form costs a search of every message, and a value may be a large file."""
    lines = [f"secret-{number:06}" for number in range(LINES_HIDDEN + 100)]
    resolver = resolver_with("\n".join(lines))
    assert resolver.excerpt(lines[LINES_HIDDEN - 1]) == "[hidden]"
    assert resolver.excerpt("\n".join(lines)) == "[hidden]"
    pieces = len("\n".join(lines)) // SEARCHED_CHARACTERS + 1
    assert len(resolver._index) <= LINES_HIDDEN + 2 * pieces


def test_a_value_within_the_word_hidden_is_hidden_once() -> None:
    """The text `[hidden]`, which replaces a value, is not searched for other values."""
    assert resolver_with("password", "hidden").excerpt("a password") == "a [hidden]"


def test_all_values_of_one_text_are_hidden() -> None:
    """A config value may have many references, and a provided value may have many lines."""
    values = [f"secret-{number:03}" for number in range(150)]
    assert "secret" not in resolver_with(*values).excerpt(" ".join(values))
    value = "\n".join(values)
    assert "secret" not in resolver_with(value).excerpt("; ".join(values))


class Rotating(Providers):
    """Providers that give another value each time, each of many lines."""

    def __init__(self) -> None:
        super().__init__({}, {})
        self.values: list[str] = []

    def of_connector(self, key: str, text: str) -> ResolvedText:
        """Replace the whole text by the next value."""
        del key, text
        number = len(self.values)
        self.values.append("\n".join(f"secret-{number:03}-{line:02}" for line in range(20)))
        return ResolvedText(self.values[-1], {self.values[-1]: "${vault:key}"}, {}, {}, {})


def test_older_values_are_kept_within_limits() -> None:
    """Old values are hidden as a whole, new ones also line by line. No config text is kept.

    Each search costs time, and a config or a provider may have new texts without end.
    """
    providers = Rotating()
    resolver = ConfigResolver(providers)
    for number in range(2 * VALUES_KEPT):
        resolver.resolved({"password": "x" * number + "${vault:key}"})
    newest, *older = reversed(providers.values[-VALUES_KEPT:])
    for value in (newest, *older, *newest.splitlines(), *older[0].splitlines()):
        assert resolver.excerpt(value) == "[hidden]"
    assert len(resolver._index) < 2 * (FORMS_KEPT + VALUES_KEPT)
    assert list(resolver._values) == ["${vault:key}"]


def test_only_the_ends_of_a_long_text_are_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    """A search takes time. The excerpt of a text without values is that of `shortened`."""
    searched: list[int] = []
    spans = SecretIndex.spans

    def noted(index: SecretIndex, text: str) -> list[Span]:
        searched.append(len(text))
        return spans(index, text)

    monkeypatch.setattr(SecretIndex, "spans", noted)
    text = "".join(map(str, range(200_000)))
    assert resolver_with(LONG_SECRET).excerpt(text) == shortened(text)
    assert sum(searched) <= MAX_CHARACTERS + 2 * ESCAPE_CHARACTERS * len(LONG_SECRET)


def test_a_long_value_costs_little(monkeypatch: pytest.MonkeyPatch) -> None:
    """A value may be a long file. The search exceeds a shown end by one escaped piece at most."""
    searched: list[int] = []
    spans = SecretIndex.spans

    def noted(index: SecretIndex, text: str) -> list[Span]:
        searched.append(len(text))
        return spans(index, text)

    monkeypatch.setattr(SecretIndex, "spans", noted)
    value = "".join(map(str, range(100_000)))
    resolver = resolver_with(value)
    for text in ("a" * 5_000_000, "a" * 10_000 + value * 10 + "a" * 10_000):
        assert resolver.excerpt(text).strip("a").strip("[hiden]").startswith("\n… ")
    assert max(searched) <= ENDS + ESCAPE_CHARACTERS * SEARCHED_CHARACTERS


def test_failures_wait_for_no_long_preparation(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forms of values are made without the lock of `excerpt`, and once for each new value.

    The event loop calls `excerpt` for each failure. A config value may have thousands of
    references, and a task resolves them again at each start.
    """
    prepared: list[bool] = []

    def noted(secret: str) -> set[str]:
        prepared.append(resolver._lock.locked())
        return forms_of(secret)

    values = {f"VALUE{number}": f"secret-{number}\n" * 20 for number in range(50)}
    environment = "org.apache.kafka.common.config.provider.EnvVarConfigProvider"
    resolver = ConfigResolver(Providers({"env": environment}, values))
    monkeypatch.setattr(config_resolver, "forms_of", noted)
    config = {"all": "".join(f"${{env:{name}}}" for name in values)}
    resolver.resolved(config)
    assert len(prepared) >= 50
    assert not any(prepared)
    prepared.clear()
    resolver.resolved(config)
    assert prepared == []


def test_what_overlaps_is_hidden_as_one() -> None:
    """No part of a value is shown, even if another value begins or ends within it."""
    assert resolver_with("abcdefg", "efghijk").excerpt("x abcdefghijk y") == "x [hidden] y"

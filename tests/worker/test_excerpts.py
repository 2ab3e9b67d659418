"""Excerpts of texts: without values of config providers, and short."""

from collections.abc import Sequence

import pytest

from controlplane.failure_text import MAX_CHARACTERS, shortened
from controlplane.settings.providers import Providers
from controlplane.worker import config_resolver
from controlplane.worker.config_resolver import ConfigResolver

LONG_SECRET = "".join(f"<{number}>" for number in range(12))
ENDS = MAX_CHARACTERS // 2


def resolver_with(value: str) -> ConfigResolver:
    """Resolver that has provided a value."""
    environment = "org.apache.kafka.common.config.provider.EnvVarConfigProvider"
    resolver = ConfigResolver(Providers({"env": environment}, {"VALUE": value}))
    resolver.resolved({"password": "${env:VALUE}"})
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


def test_no_part_of_a_repeated_value_is_shown() -> None:
    """The hidden text is much shorter than the text, so that its cut comes near the ends."""
    for value in (LONG_SECRET, LONG_SECRET * 2_000):
        assert "<" not in resolver_with(value).excerpt(value * (1_000_000 // len(value)))


def test_only_the_ends_of_a_long_text_are_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each value costs a search. The excerpt of a text without values is `shortened`."""
    searched: list[int] = []
    without = config_resolver._without

    def noted(secrets: Sequence[str], text: str) -> str:
        searched.append(len(text))
        return without(secrets, text)

    monkeypatch.setattr(config_resolver, "_without", noted)
    text = "".join(map(str, range(200_000)))
    assert resolver_with(LONG_SECRET).excerpt(text) == shortened(text)
    assert sum(searched) < MAX_CHARACTERS + 100

"""Wildcards in names of hosts and in origins."""

import re
import time
from itertools import product

import pytest

from controlplane.rest.security.wildcards import wildcard_pattern

TEXTS = ["".join(letters) for size in range(7) for letters in product("a.b", repeat=size)]


@pytest.mark.parametrize(
    "text",
    ["", "a", "*", "**", "a*", "*a", "*.a", "a*b", "*a*", "a*.*b", "*.*.a", "*ab*ab", "a*a*a"],
)
def test_a_star_stands_for_any_text(text: str) -> None:
    """The pattern matches the same texts as one in which each `*` may take every text."""
    simple = re.escape(text).replace(r"\*", ".*")
    for candidate in TEXTS:
        assert bool(re.fullmatch(wildcard_pattern(text), candidate)) == bool(
            re.fullmatch(simple, candidate)
        ), candidate


def test_a_text_that_does_not_match_is_refused_fast() -> None:
    """A stranger's text with many dots costs little, although the pattern has several `*`."""
    pattern = re.compile(wildcard_pattern("*.*.*.*.example.com"))
    began = time.process_time()
    assert pattern.fullmatch("." * 300 + "x") is None
    assert time.process_time() - began < 1

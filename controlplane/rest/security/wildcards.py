"""Wildcards of settings: `*` stands for any text, in names of hosts and in origins."""

import re


def wildcard_pattern(text: str) -> str:
    """Return a regular expression for texts of this form, for `re.fullmatch`.

    A stranger sends the compared text, so a failing match must be fast. Each `*` but the last takes
    the shortest text, and never a longer one (atomic group). A longer text leads to a match only if
    the shortest one does, so backtracking is useless.
    """
    first, *parts = map(re.escape, text.split("*"))
    if not parts:
        return first
    *inner, last = parts
    return first + "".join(f"(?>.*?{part})" for part in inner) + f".*{last}"

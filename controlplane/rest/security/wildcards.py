"""Wildcards of settings: `*` stands for any text, in names of hosts and in origins."""

import re


def wildcard_pattern(text: str) -> str:
    """Return a regular expression for texts of this form, for `re.fullmatch`.

    A stranger sends the compared text, so a failing match must be fast. Each `*` but the last takes
    the shortest text, and never a longer one (atomic group). This loses no match: if a longer
    text for a `*` leads to a match, the shortest one does, too.
    """
    first, *parts = map(re.escape, text.split("*"))
    if not parts:
        return first
    *inner, last = parts
    return first + "".join(f"(?>.*?{part})" for part in inner) + f".*{last}"

"""Texts of exceptions that plugins raise: their `__str__` and `__repr__` may raise, too.

No function here raises. Long texts are cut twice, each time in the middle. The first cut bounds the
time that hiding secrets takes. Secrets are hidden before the second cut (`shortened`): a cut
through a secret would show the rest of it.
"""

import traceback
from collections.abc import Callable
from typing import Any

MAX_CHARACTERS = 30_000
"""Maximum length of a text in a status, an answer or a log line; a longer one loses its middle."""

_MAX_UNHIDDEN_CHARACTERS = 1_000_000
"""Maximum length of a text before secrets are hidden; a longer one loses its middle. This first cut
may split a secret. Its two halves lie next to the cut, and the second cut removes them."""

_EXCEPTIONS_MAX = 200
"""Maximum number of exceptions in a trace: causes, and members of groups."""

_CAUSES_MAX = 20
"""Maximum number of causes that are followed: those of a plugin's exception may form a cycle."""


def message_of(failure: BaseException) -> str:
    """Return the message of an exception (`str`); it may be empty."""
    return _text(str, failure, f"{class_of(failure)}: <exception str() failed>")


def description_of(failure: BaseException) -> str:
    """Return the class and the arguments of an exception (`repr`)."""
    return _text(repr, failure, f"{class_of(failure)}: <exception repr() failed>")


def reason_of(failure: BaseException) -> str:
    """Return the description of an exception, with that of its root cause if it has one."""
    try:
        cause = _root_cause(failure)
    except BaseException:  # noqa: BLE001 - `__cause__` may be the plugin's code
        cause = failure
    text = description_of(failure)
    return text if cause is failure else f"{text}, caused by {description_of(cause)}"


def trace_of(failure: BaseException) -> str:
    """Return the trace of an exception with its causes."""
    return _text(_formatted, failure, f"{class_of(failure)}: <exception traceback failed>")


def place_of(failure: BaseException) -> str:
    """Return `file:line` of the code that raised an exception."""
    return _text(_place, failure, _UNKNOWN_PLACE)


def shortened(text: str, limit: int = MAX_CHARACTERS) -> str:
    """Return a text without its middle if it has more characters than the limit."""
    if len(text) <= limit:
        return text
    half = limit // 2
    return around_gap(text[:half], text[-half:], len(text) - 2 * half)


def around_gap(start: str, end: str, left_out: int) -> str:
    """Return the two ends of a text, and between them the number of characters left out."""
    return f"{start}\n… {left_out} characters left out …\n{end}"


def _text(read: Callable[[Any], str], failure: BaseException, otherwise: str) -> str:
    try:
        # A plain `str`: the plugin may return a subclass with methods of its own.
        return shortened(str.__str__(read(failure)), _MAX_UNHIDDEN_CHARACTERS)
    except BaseException:  # noqa: BLE001 - the plugin's code may raise anything
        return otherwise


def _root_cause(failure: BaseException) -> BaseException:
    cause = failure
    for _ in range(_CAUSES_MAX):
        following = cause.__cause__
        if not isinstance(following, BaseException):
            break
        cause = following
    return cause


def _place(failure: BaseException) -> str:
    frames = traceback.extract_tb(failure.__traceback__, limit=-1)
    return f"{frames[-1].filename}:{frames[-1].lineno}" if frames else _UNKNOWN_PLACE


_UNKNOWN_PLACE = "an unknown place"


def _formatted(failure: BaseException) -> str:
    if _is_large(failure):
        own_calls = "".join(traceback.format_tb(failure.__traceback__))
        left_out = f"(more than {_EXCEPTIONS_MAX} causes and members are left out)"
        return f"{_TRACEBACK}{own_calls}{class_of(failure)}: {message_of(failure)}\n{left_out}"
    return "".join(traceback.format_exception(failure)).rstrip()


_TRACEBACK = "Traceback (most recent call last):\n"


def _is_large(failure: BaseException) -> bool:
    """Return True if an exception has many causes or members: their traces would take seconds."""
    pending, examined = [failure], {id(failure)}
    while pending:
        exception = pending.pop()
        members = exception.exceptions if isinstance(exception, BaseExceptionGroup) else ()
        if len(examined) + len(members) > _EXCEPTIONS_MAX:
            return True
        for related in (exception.__cause__, exception.__context__, *members):
            if isinstance(related, BaseException) and id(related) not in examined:
                examined.add(id(related))
                pending.append(related)
    return False


def class_of(failure: BaseException) -> str:
    """Return the name of an exception's class. No code of a metaclass runs."""
    name: str = type.__dict__["__name__"].__get__(type(failure))
    return name

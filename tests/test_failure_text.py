"""Texts of exceptions whose own methods misbehave."""

import pytest

from controlplane.failure_text import (
    MAX_CHARACTERS,
    description_of,
    message_of,
    place_of,
    reason_of,
    shortened,
    trace_of,
)


class Textless(Exception):
    """Exception whose text cannot be read."""

    def __init__(self, raised: type[BaseException]) -> None:
        self.raised = raised

    def __str__(self) -> str:
        raise self.raised

    __repr__ = __str__


class Nameless(type):
    """Class of classes whose name cannot be read by usual means."""

    @property
    def __name__(cls) -> str:  # type: ignore[override]
        """Raise an error, as a broken metaclass may."""
        raise RuntimeError


class NamelessError(Exception, metaclass=Nameless):
    """Exception whose class raises when it is asked for its name."""

    def __repr__(self) -> str:
        raise RuntimeError


@pytest.mark.parametrize("raised", [RuntimeError, SystemExit, KeyboardInterrupt])
def test_the_text_of_a_broken_exception_names_its_class(raised: type[BaseException]) -> None:
    """Each text names the class, whatever its methods raise."""
    failure = Textless(raised)
    assert message_of(failure) == "Textless: <exception str() failed>"
    assert description_of(failure) == "Textless: <exception repr() failed>"
    assert trace_of(failure).endswith("Textless: <exception str() failed>")
    assert description_of(NamelessError()) == "NamelessError: <exception repr() failed>"


def test_usual_exceptions_have_pythons_text() -> None:
    """The texts are those of Python."""
    failure = ValueError("wrong")
    assert (message_of(failure), description_of(failure)) == ("wrong", "ValueError('wrong')")
    assert trace_of(failure) == "ValueError: wrong"
    assert message_of(ValueError()) == ""


def test_a_subclass_of_str_becomes_plain_text() -> None:
    """A subclass of `str` becomes a plain text: its methods may raise."""

    class OwnText(str):
        __slots__ = ()

        def replace(self, *_: object) -> str:
            raise RuntimeError

    class Wrapped(Exception):
        def __str__(self) -> str:
            return OwnText("wrong")

    assert type(message_of(Wrapped())) is str


@pytest.mark.parametrize("text_of", [message_of, description_of, trace_of])
def test_a_long_text_is_cut_in_the_middle(text_of: type) -> None:
    """A text of megabytes keeps its beginning and its end."""
    text = shortened(text_of(ValueError("a" * 3_000_000 + "z")))
    assert len(text) < MAX_CHARACTERS + 100
    assert "characters left out" in text
    assert text.rstrip("')").endswith("z")


def test_a_reason_names_the_first_cause() -> None:
    """The cause behind a wrapper is what an operator can mend; circles of causes end."""
    cause, between, failure = ValueError("bad value"), RuntimeError("between"), OSError("wrapped")
    assert reason_of(failure) == "OSError('wrapped')"
    failure.__cause__, between.__cause__ = between, cause
    assert reason_of(failure) == "OSError('wrapped'), caused by ValueError('bad value')"
    cause.__cause__ = failure
    assert reason_of(failure).startswith("OSError('wrapped'), caused by ")


class Rootless(ValueError):
    """Exception whose cause and traceback cannot be read."""

    @property
    def __cause__(self) -> BaseException | None:  # type: ignore[override]
        raise SystemExit

    __traceback__ = __cause__  # type: ignore[assignment]


def test_unreadable_causes_and_places_are_left_out() -> None:
    """The exception itself is described all the same."""
    failure = Rootless("wrong")
    assert reason_of(failure) == "Rootless('wrong')"
    assert place_of(failure) == place_of(ValueError()) == "an unknown place"
    wrapper = OSError("wrapped")
    wrapper.__cause__ = failure
    assert reason_of(wrapper) == "OSError('wrapped')"
    with pytest.raises(OSError, match="wrapped") as raised:
        raise wrapper
    assert place_of(raised.value).startswith(f"{__file__}:")


def _chain(length: int) -> Exception:
    """An exception with many causes."""
    failure = ValueError("first")
    for number in range(length):
        following = ValueError(f"number {number}")
        following.__cause__ = failure
        failure = following
    return failure


@pytest.mark.parametrize(
    ("failure", "message"),
    [
        (_chain(100_000), "ValueError: number 99999"),
        (
            ExceptionGroup("many", [KeyError(number) for number in range(100_000)]),
            "ExceptionGroup: many (100000 sub-exceptions)",
        ),
    ],
    ids=["chain", "group"],
)
def test_a_trace_leaves_out_very_many_exceptions(failure: Exception, message: str) -> None:
    """The trace has the calls and message of the exception itself."""
    with pytest.raises(type(failure)) as raised:
        raise failure
    trace = trace_of(raised.value)
    assert f"in {test_a_trace_leaves_out_very_many_exceptions.__name__}" in trace
    left_out = "(more than 200 causes and members are left out)"
    assert trace.endswith(f"\n{message}\n{left_out}")


def test_a_trace_has_some_causes() -> None:
    """A cycle of causes ends, and does not count as many."""
    failure = _chain(50)
    first = failure
    while first.__cause__ is not None:
        first = first.__cause__  # type: ignore[assignment]
    first.__cause__ = failure
    assert trace_of(failure).count("ValueError: number ") == 50

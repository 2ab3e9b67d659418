"""Log lines: one per event, for people and machines, safe whatever strangers send."""

import io

from controlplane.observe import logger, silent


def test_one_line_of_pairs() -> None:
    """Time, level and event come first, then the facts in the order in which they were given."""
    stream = io.StringIO()
    logger(stream).info("request", status=200, target="/a b")
    head, _, rest = stream.getvalue().partition(" ")
    assert head.startswith("timestamp=")
    assert head.endswith("Z")
    assert rest == 'level=info event=request status=200 target="/a b"\n'


def test_strangers_cannot_write_lines_of_their_own() -> None:
    """Control characters, marks that turn text around and lone surrogates come as escapes."""
    stream = io.StringIO()
    logger(stream).info("request", target="\r\n\x1b[2J\u202e\ud800")
    assert stream.getvalue().count("\n") == 1
    assert stream.getvalue().isascii()
    assert r"\r\n\x1b[2J\u202e\ud800" in stream.getvalue()


def test_quiet_tells_only_what_went_wrong() -> None:
    """Information is left out, warnings and defects are not."""
    stream = io.StringIO()
    quiet = logger(stream, quiet=True)
    quiet.info("request")
    quiet.warning("log_not_followed", reason="gone")
    assert " level=warning event=log_not_followed reason=gone\n" in stream.getvalue()
    assert "request" not in stream.getvalue()


def test_a_defect_is_one_line_too() -> None:
    """The traceback goes with it, with escaped line ends."""
    stream = io.StringIO()
    try:
        int("oops")
    except ValueError:
        logger(stream).exception("defect")
    assert stream.getvalue().count("\n") == 1
    assert "ValueError: invalid literal" in stream.getvalue()


def test_silent_takes_everything() -> None:
    """The logger that tells nobody can be used like any other."""
    nobody = silent()
    for tell in (nobody.info, nobody.warning, nobody.exception):
        tell("event", fact=1)

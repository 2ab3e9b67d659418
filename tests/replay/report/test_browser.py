"""Pages in Chromium: on a desk, on a phone, in the dark scheme, and on paper."""

from collections.abc import Iterable
from importlib.resources import files
from itertools import combinations
from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest
from selenium.webdriver.common.keys import Keys

from controlplane.core.moments import read_time_ms
from controlplane.page.time_axis import TimeAxis
from controlplane.page.timeline import TimeRange
from replay.report import ClusterFacts, PageLimits, page
from tests.recorded_requests import recorded_entries
from tests.replay.audit.planted_log import MINUTE, PAUSED, STARTED, PlantedLog
from tests.replay.report.browser import DESK, PAPER_HEIGHT, PHONE, Browser
from tests.replay.report.planted_clusters import MARKUP_NAMES, called, cluster_facts, of

pytestmark = pytest.mark.browser

LINES = ("2.8", *(f"3.{minor}" for minor in range(10)), "4.0", "4.1", "4.2", "4.3")

NAMES = (*MARKUP_NAMES, "漢字 😀 ünïcödé", "\u05d0\u05d1\u05d2 \u0661", "long" * 60)

ELEMENTS = "[...document.all].map((one) => one.tagName)"

SMALLEST = 12
"""The least height of a text (CSS pixels)."""


LEAST_CONTRAST = 1.4
"""The least contrast of two states that look the same otherwise."""


class StateDrawing(NamedTuple):
    """Drawing of a state: name, height and colour."""

    name: str
    height: str
    light: float
    """The luminance of its colour, from 0 to 1."""
    is_hollow: bool

    def contrast(self, other: "StateDrawing") -> float:
        """Contrast of two colours by WCAG 2.2."""
        dark, light = sorted((self.light, other.light))
        return (light + 0.05) / (dark + 0.05)


def write_page(
    file: Path, fleet: Iterable[ClusterFacts], failed: dict[str, str] | None = None
) -> Path:
    """Write a report page to a file and return its path."""
    file.write_text("".join(page(list(fleet), failed)), encoding="utf-8")
    return file


@pytest.fixture(scope="module")
def life(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Page of a recorded cluster, with verdicts on a change to each release line, 2.8 to 4.3."""
    entries = recorded_entries("life-3.9")
    return write_page(
        tmp_path_factory.mktemp("page") / "life.html", [cluster_facts(entries, goals=LINES)]
    )


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Page of 20 equal clusters with 50 connectors each; the log of each spans 36 hours."""
    log = PlantedLog()
    for number in range(50):
        name = f"a-source-with-a-name-{number:02}"
        log.running(name).moving(name, 7 * MINUTE).status(f"task-{name}-0", "FAILED", trace="gone")
        log.target(name, PAUSED).wait(MINUTE).target(name, STARTED).config(name, rows="2")
        log.config(name, password="s3cret").restart(name).offset(name, {"position": number % 3})
    kept = msgspec.json.encode(cluster_facts(of(log), limits=PageLimits.shared_by(20), goals=LINES))
    names = [b'"cluster-%02d"' % number for number in range(20)]
    clusters = [
        msgspec.json.decode(kept.replace(b'"lab"', name), type=ClusterFacts) for name in names
    ]
    return write_page(tmp_path_factory.mktemp("page") / "fleet.html", clusters)


@pytest.fixture(scope="module")
def odd(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Page of clusters with odd names: markup, other scripts, 240 characters."""
    clusters = [cluster_facts(of(called(name)), f"lab {name}", goals=LINES) for name in NAMES]
    failed = {f"c{name}": name for name in NAMES}
    return write_page(tmp_path_factory.mktemp("page") / "odd.html", clusters, failed)


# --- defects that the checks notice -------------------------------------------------------------


def test_defects_are_noticed(browser: Browser, tmp_path: Path) -> None:
    """Each check of the browser reports its defect on a page with all defects."""
    file = tmp_path / "bad.html"
    file.write_text(
        "<body style='margin: 0; background: #fff'><script>console.error('broken')</script>"
        "<img src='http://127.0.0.1:9/picture.png'>"
        "<p style='width: 2000px'>long</p><p style='font-size: 9px'>small</p>"
        "<p style='color: #aaa'>faint</p>"
        "<p style='position: absolute; left: 1270px'>outside</p>"
        "<div style='overflow: auto; height: 20px'>cut<br>off</div>"
        "<details><summary>folded</summary><p>up</p></details><a href='#nowhere'>link</a>"
        "<div class=scroll style='overflow: auto; width: 9px'><p>aside</p></div>"
        "<svg class=axis><text x=0 y=9>22:50</text><text x=9 y=9>22:51</text></svg>"
    )
    browser.open(file)
    assert any("broken" in complaint for complaint in browser.complaints())
    assert "http://127.0.0.1:9/picture.png" in browser.asked_for()
    assert "the page is 2000 wide, of 1280" in browser.ask("stickingOut()")
    assert any(
        complaint.startswith('P "outside" ends at') for complaint in browser.ask("stickingOut()")
    )
    assert browser.ask("tooSmall(12)") == ['P "small" is 9px high']
    assert browser.ask("tooFaint()") == ['P "faint" has a contrast of 2.3']
    assert browser.ask("leadingNowhere()") == ["#nowhere"]
    assert browser.ask("timesTouching()") == ['text "22:51"']
    assert browser.ask("scrollingAside()") == ['DIV "aside"']
    assert browser.ask("hidden()") == ['P "up"', 'DIV "cutoff"']


# --- every page ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["life", "odd", "fleet"])
def test_a_page_requests_nothing_and_every_link_has_a_target(
    browser: Browser, name: str, request: pytest.FixtureRequest
) -> None:
    """The browser requests only the page's own file, and its console stays empty."""
    file: Path = request.getfixturevalue(name)
    browser.open(file)
    assert browser.asked_for() == [file.as_uri()]
    assert browser.complaints() == []
    assert browser.ask("leadingNowhere()") == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [DESK, PHONE])
@pytest.mark.parametrize("name", ["life", "odd"])
def test_everything_can_be_read(
    browser: Browser, name: str, width: int, scheme: str, request: pytest.FixtureRequest
) -> None:
    """Text is readable on desk and phone, in both colour schemes, with parts folded and open."""
    browser.open(request.getfixturevalue(name), width=width, scheme=scheme)
    for _ in ("folded", "open"):
        assert browser.ask("[...stickingOut(), ...scrollingAside()]") == []
        assert browser.ask("timesTouching()") == []
        assert browser.ask(f"tooSmall({SMALLEST})") == []
        assert browser.ask("tooFaint()") == []
        browser.ask("document.querySelectorAll('details').forEach((one) => (one.open = true))")
    dark = browser.ask("luminance(getComputedStyle(document.body).backgroundColor) < 0.1")
    assert dark == (scheme == "dark")


@pytest.mark.parametrize("name", ["life", "odd"])
def test_nothing_is_missing_on_paper(
    browser: Browser, name: str, request: pytest.FixtureRequest
) -> None:
    """Folded and scrolled parts are printed within the width of the paper."""
    browser.open(request.getfixturevalue(name))
    assert browser.ask("hidden()") != []
    browser.as_printed()
    assert browser.ask("hidden()") == []
    assert browser.ask("[...stickingOut(), ...timesTouching()]") == []
    assert browser.ask("tooFaint()") == []
    height = browser.ask("document.documentElement.scrollHeight")
    # A block that does not fit onto a page moves to the next one, so there may be more pages.
    assert height / PAPER_HEIGHT - 1 < browser.pages() < 1.6 * height / PAPER_HEIGHT


def test_names_are_texts_and_run_nothing(browser: Browser, odd: Path, tmp_path: Path) -> None:
    """Markup in names, values of settings and errors is shown as text; it makes no element."""
    plain = [cluster_facts(of(called("a")), f"lab {number}") for number in range(len(NAMES))]
    browser.open(write_page(tmp_path / "plain.html", plain, dict.fromkeys("abc", "d")))
    elements = set(browser.ask(ELEMENTS))
    browser.open(odd)
    assert set(browser.ask(ELEMENTS)) == elements
    text = browser.ask("document.body.textContent")
    assert all(name in text for name in NAMES if name.isprintable())


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_states_differ_without_colours(browser: Browser, life: Path, scheme: str) -> None:
    """States of equal height differ in lightness, or one is hollow."""
    browser.open(life, scheme=scheme)
    states = [StateDrawing(*drawing) for drawing in browser.ask("drawnStates()")]
    assert len(states) == 8
    alike = [
        (state.name, other.name)
        for state, other in combinations(states, 2)
        if (state.height, state.is_hollow) == (other.height, other.is_hollow)
        and state.contrast(other) < LEAST_CONTRAST
    ]
    assert alike == []


# --- links and the keyboard ---------------------------------------------------------------------


def test_a_number_leads_to_its_record(browser: Browser, life: Path) -> None:
    """Enter on the first link of each kind makes the link's target visible."""
    ways = ("td.n a", ".lane a", ".events a", ".plot a", ".lines a", ".chip", ".tile")
    for way in (*ways, ".card details .chip", ".matrix a", "#c0-findings summary a"):
        browser.open(life)
        browser.press(Keys.TAB)
        browser.ask(f"document.querySelector('{way}').focus()")
        browser.press(Keys.ENTER)
        assert browser.ask("targetIsSeen()"), way


def test_the_keyboard_focus_is_visible(browser: Browser, life: Path) -> None:
    """The focused element has an outline."""
    browser.open(life)
    focused = set()
    for _ in range(40):
        browser.press(Keys.TAB)
        style = "getComputedStyle(document.activeElement)"
        assert browser.ask(f"{style}.outlineStyle") == "solid"
        assert browser.ask(f"parseFloat({style}.outlineWidth)") >= 2
        focused.add(browser.ask("document.activeElement.outerHTML"))
    assert len(focused) == 40
    browser.ask("document.querySelector('.lane a').focus()")
    rect = "document.querySelector('.lane a > rect')"
    assert browser.ask(f"getComputedStyle({rect}).strokeWidth") == "4px"


@pytest.mark.prove
def test_a_large_fleet_opens_folded(browser: Browser, fleet: Path) -> None:
    """The section of each cluster is folded at first; a URL fragment or a link opens it."""
    assert fleet.stat().st_size < 8_000_000
    for width in (DESK, PHONE):
        browser.open(fleet, width=width)
        assert browser.ask("document.querySelectorAll('details.cluster[open]').length") == 0
        assert browser.ask("[...stickingOut(), ...scrollingAside()]") == []
        assert browser.ask("document.documentElement.scrollHeight") < 12_000
    browser.open(fleet, "#c7-findings")
    assert browser.ask("document.querySelector('details.cluster[open]').id") == "c7"
    assert browser.ask("targetIsSeen()")
    browser.open(fleet)
    browser.ask("document.querySelector('#clusters tbody tr:nth-child(9) td.n a').click()")
    assert browser.ask("targetIsSeen()")


def test_times_never_touch(browser: Browser, tmp_path: Path) -> None:
    """Time labels never touch, for spans from one second to ten years, on desk and phone."""
    starts = (read_time_ms(text) for text in ("2026-11-20T22:49:57Z", "2025-12-31T06:00:00Z"))
    axes = [
        TimeAxis(TimeRange(start_ms + step * 3_456_789, start_ms + step * 3_456_789 + length_ms))
        for start_ms in starts
        for step in range(5)
        for length_ms in (int(1_000 * 1.7**power) for power in range(38))
    ]
    style = files("replay.report").joinpath("style.css").read_text(encoding="utf-8")
    pictures = "".join(f"<div class=timeline><p></p>{axis.labels()}</div>" for axis in axes)
    file = tmp_path / "axes.html"
    file.write_text(f"<style>{style}</style><main class=card>{pictures}</main>")
    for width in (DESK, PHONE):
        browser.open(file, width=width)
        assert browser.ask("document.querySelectorAll('.axis text').length") > len(axes)
        assert browser.ask("timesTouching()") == []

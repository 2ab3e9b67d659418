"""Real browser (Chromium): its requests, console messages and printed pages."""

import base64
import json
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from selenium.webdriver import Chrome, ChromeOptions
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.action_chains import ActionChains

CHECKS = Path(__file__).with_name("checks.js").read_text(encoding="utf-8")

QUIET = (
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
)
"""Options of a Chromium that sends no requests of its own."""

DESK, PHONE = 1280, 375
"""Widths of a desktop and a phone window (CSS pixels)."""

PAPER_WIDTH, PAPER_HEIGHT = 703, 1017
"""Printable area of A4 within the margins of the style (CSS pixels: 96 to an inch)."""


class Browser:
    """Chromium window without a screen."""

    def __init__(self, driver: Chrome) -> None:
        self._driver = driver

    def open(
        self, file: Path, fragment: str = "", *, width: int = DESK, scheme: str = "light"
    ) -> None:
        """Open a file in a window of this width, with the preference `light` or `dark`."""
        self.asked_for()
        self.complaints()
        self._window(width, 900)
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self._tell("Emulation.setEmulatedMedia", media="", features=features)
        self._driver.get("about:blank")
        self._driver.get(f"{file.as_uri()}{fragment}")
        # Chromium skips the layout of cards outside of the window (`content-visibility: auto`), but
        # the checks need the whole page.
        self._driver.execute_script(
            "const styles = document.styleSheets[0];"
            "styles?.insertRule('.card { content-visibility: visible }', styles.cssRules.length)"
        )

    def ask(self, question: str) -> Any:
        """Evaluate an expression, which may use the functions of `checks.js`."""
        return self._driver.execute_script(f"{CHECKS}\nreturn {question}")

    def as_printed(self) -> None:
        """Lay the page out as it is on paper."""
        self._window(PAPER_WIDTH, PAPER_HEIGHT)
        self._tell("Emulation.setEmulatedMedia", media="print")

    def pages(self) -> int:
        """Number of A4 pages that the page prints on."""
        inches = {"paperWidth": 8.27, "paperHeight": 11.69, "preferCSSPageSize": True}
        answer = self._tell("Page.printToPDF", **inches, printBackground=True)
        content = base64.b64decode(answer["data"])
        assert content.startswith(b"%PDF-")
        return len(re.findall(rb"/Type\s*/Page\b", content))

    def press(self, *keys: str) -> None:
        """Press keys one after the other."""
        ActionChains(self._driver).send_keys(*keys).perform()

    def asked_for(self) -> list[str]:
        """URLs that the page requested from network or disk since the last call."""
        events = (json.loads(entry["message"])["message"] for entry in self._log("performance"))
        sent = (event for event in events if event["method"] == "Network.requestWillBeSent")
        return [event["params"]["request"]["url"] for event in sent]

    def complaints(self) -> list[str]:
        """Messages on the console since the last call."""
        return [entry["message"] for entry in self._log("browser")]

    def _log(self, name: str) -> list[dict[str, Any]]:
        return list(self._driver.get_log(name))  # type: ignore[no-untyped-call]

    def _window(self, width: int, height: int) -> None:
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self._tell("Emulation.setDeviceMetricsOverride", **size)

    def _tell(self, command: str, **arguments: Any) -> dict[str, Any]:
        """Send a command of the DevTools protocol; return its answer."""
        answer: dict[str, Any] = self._driver.execute_cdp_cmd(command, arguments)
        return answer


@contextmanager
def started() -> Iterator[Browser]:
    """Start a browser, and close it at the end."""
    options = ChromeOptions()
    options.binary_location = shutil.which("chromium") or ""
    for argument in QUIET:
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    # With the path of the driver, Selenium downloads none.
    driver = Chrome(options, Service(shutil.which("chromedriver")))
    try:
        yield Browser(driver)
    finally:
        driver.quit()

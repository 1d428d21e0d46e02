"""The page in a real browser: headless Chromium, driven by selenium."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bench.cli import main
from tests.bench.reports import FIGURES_DRAWN, HOSTILE, SHOWN, few_figures, hostile, write_folder

webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed; install slipbench[test]")
from selenium.webdriver.chrome.service import Service  # noqa: E402
from selenium.webdriver.common.by import By  # noqa: E402
from selenium.webdriver.common.keys import Keys  # noqa: E402

BROWSER, DRIVER = Path("/usr/bin/chromium"), Path("/usr/bin/chromedriver")
pytestmark = pytest.mark.skipif(
    not (BROWSER.exists() and DRIVER.exists()),
    reason=f"{BROWSER} and {DRIVER} are not both here; .ci/run installs them",
)
ARGUMENTS = """
--headless --no-sandbox --disable-gpu --no-first-run --disable-background-networking --disable-component-update
--disable-sync
"""
# The lowest contrast of any text on the page with what lies behind it, as WCAG 2.2 (1.4.3) counts it, and that text.
CONTRAST = """
const numbers = (colour) => colour.match(/[\\d.]+/g).map(Number);
const linear = (value) => value / 255 <= 0.04045 ? value / 255 / 12.92 : ((value / 255 + 0.055) / 1.055) ** 2.4;
const light = (colour) => {
  const [r, g, b] = numbers(colour).map(linear);
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const behind = (element) => {
  for (let at = element; at; at = at.parentElement) {
    const colour = getComputedStyle(at).backgroundColor;
    if (numbers(colour)[3] !== 0) return light(colour);
  }
  return 1;
};
let lowest = [99, ""];
for (const element of document.body.querySelectorAll("*")) {
  const own = [...element.childNodes].some((node) => node.nodeType === 3 && node.data.trim());
  if (!own || element.tagName === "SCRIPT") continue;
  const [a, b] = [light(getComputedStyle(element).color), behind(element)];
  const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
  if (contrast < lowest[0]) lowest = [contrast, element.textContent];
}
return lowest;
"""

REACHABLE = """
return [...document.querySelectorAll(arguments[0])].map((one, at) => one.dataset.at = `${one.tagName} ${at}`)
"""
FOCUSED = "const at = document.activeElement; return [at.dataset.at, getComputedStyle(at).outlineStyle]"


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The address of a page that says hostile things, its figures being empty."""
    import matplotlib.pyplot as plt

    out = write_folder(tmp_path_factory.mktemp("browser") / "out", hostile())
    (out / "figures").mkdir()
    for name in FIGURES_DRAWN:
        plt.imsave(out / "figures" / f"{name}-synthetic.png", np.ones((600, 1200, 3)))
    with few_figures():
        assert main(["report", "--out", str(out)]) == 0
    return (out / "report.html").as_uri()


@pytest.fixture(scope="module")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A browser with a profile of its own, which keeps a log of its console and of its requests."""
    options = webdriver.ChromeOptions()
    options.binary_location = str(BROWSER)
    for argument in (*ARGUMENTS.split(), f"--user-data-dir={tmp_path_factory.mktemp('profile')}"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(str(DRIVER)))
    yield driver
    driver.quit()


@pytest.fixture
def browser(chromium: Any, page: str) -> Any:
    """The browser with the page freshly loaded, 1280 pixels wide, in light colours."""
    size(chromium, 1280)
    colours(chromium, "light")
    chromium.get(page)
    return chromium


def size(browser: Any, width: int) -> None:
    """Set the width of the page in CSS pixels."""
    screen = {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": width < 600}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", screen)


def colours(browser: Any, scheme: str, media: str = "screen") -> None:
    """Set what the user prefers, `light` or `dark`, and whether the page is shown or printed."""
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": media, "features": features})


def headings(browser: Any) -> list[Any]:
    """The headings of the first table's columns."""
    table = browser.find_element(By.CSS_SELECTOR, "table.sortable")
    return list(table.find_elements(By.CSS_SELECTOR, "th[aria-sort]"))


def column(browser: Any, name: str) -> list[str]:
    """The cells of a column of the first table, from top to bottom."""
    at = [heading.text for heading in headings(browser)].index(name)
    rows = browser.find_elements(By.CSS_SELECTOR, "#speed-1")[0].find_elements(By.XPATH, "../tbody/tr")
    return [row.find_elements(By.XPATH, "./*")[at].text for row in rows]


def test_page_loads_without_errors_and_without_the_network(browser: Any, page: str) -> None:
    browser.get_log("performance")  # of pages before
    browser.get(page)
    messages = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    sent = [m["params"]["request"]["url"] for m in messages if m["method"] == "Network.requestWillBeSent"]
    assert page in sent and [url for url in sent if url != page and not url.startswith("data:")] == []
    assert browser.get_log("browser") == []
    drawn = browser.execute_script("return [...document.images].map((image) => image.naturalWidth)")
    assert drawn == [1200] * len(FIGURES_DRAWN)


def test_foreign_text_shows_as_text(browser: Any) -> None:
    assert "owned" not in browser.title and browser.title.endswith("slipbench")
    assert SHOWN in browser.find_element(By.ID, "failed-runs").find_element(By.XPATH, "..").text
    assert not browser.find_elements(By.CSS_SELECTOR, "[onerror], img[src='x'], main script")
    assert HOSTILE not in browser.page_source


def test_keys_sort_a_table(browser: Any) -> None:
    given = column(browser, "system")
    (heading,) = (heading for heading in headings(browser) if heading.text == "train s")
    button = heading.find_element(By.TAG_NAME, "button")
    states = []
    for key in (Keys.ENTER, Keys.SPACE, Keys.ENTER):
        button.send_keys(key)
        states.append((heading.get_attribute("aria-sort"), column(browser, "train s"), column(browser, "system")))
    (up, ascending, _), (down, descending, systems), (none, _, again) = states
    assert (up, down, none) == ("ascending", "descending", "none")
    numbers = [float(text) for text in ascending if text]
    assert numbers == sorted(numbers) and numbers[0] < numbers[-1] and ascending[-1] == ""
    assert [float(text) for text in descending if text] == numbers[::-1] and descending[-1] == ""
    assert systems[0] == "xdl" and again == given


def test_sorting_is_said_and_one_column_at_a_time(browser: Any) -> None:
    buttons = [heading.find_element(By.TAG_NAME, "button") for heading in headings(browser)]
    buttons[0].click()
    buttons[1].click()
    states = [heading.get_attribute("aria-sort") for heading in headings(browser)]
    assert states == ["none", "ascending", *["none"] * (len(states) - 2)]
    assert browser.find_element(By.ID, "sorted").get_attribute("textContent").endswith("by seen/s, ascending")
    buttons[0].click()
    assert column(browser, "system") == sorted(column(browser, "system"))


def test_keys_reach_everything_and_show_where_they_are(browser: Any) -> None:
    folded = "details:not([open]) > :not(summary), details:not([open]) > :not(summary) *"
    left = set(browser.execute_script(REACHABLE, f":is(a, button, summary, .scroll):not({folded})"))
    keys = webdriver.ActionChains(browser)
    for _ in range(len(left)):
        keys.send_keys(Keys.TAB).perform()
        focused, outline = browser.execute_script(FOCUSED)
        assert outline == "solid", focused
        left.remove(focused)
    assert not left
    browser.execute_script("document.querySelector('.skip').focus()")
    keys.send_keys(Keys.ENTER).perform()
    assert browser.switch_to.active_element.get_attribute("id") == "main"


@pytest.mark.parametrize("width", [360, 1280])
def test_page_does_not_scroll_sideways(browser: Any, width: int) -> None:
    size(browser, width)
    for details in browser.find_elements(By.TAG_NAME, "summary"):
        details.click()
    assert browser.execute_script("return document.documentElement.scrollWidth") <= width
    clipped = """return [...document.querySelectorAll("main p:not(#sorted), main li, main dd, h1, h2, h3, figcaption")]
        .filter((element) => element.clientWidth && element.scrollWidth > element.clientWidth + 1)
        .map((element) => element.textContent)"""
    assert browser.execute_script(clipped) == []


@pytest.mark.parametrize(("scheme", "media"), [("light", "screen"), ("dark", "screen"), ("dark", "print")])
def test_text_has_contrast(browser: Any, scheme: str, media: str) -> None:
    colours(browser, scheme, media)
    contrast, text = browser.execute_script(CONTRAST)
    assert contrast >= 4.5, text
    dark = browser.execute_script("return getComputedStyle(document.body).backgroundColor") != "rgb(255, 255, 255)"
    assert dark == (scheme == "dark" and media == "screen")


def test_page_prints_whole(browser: Any) -> None:
    """On paper nothing scrolls, so nothing may stick out of its place."""
    colours(browser, "light", "print")
    size(browser, 1032)  # 273 mm, an A4 page on its side without its margins
    assert browser.execute_script("return document.documentElement.scrollWidth") <= 1032

"""Drive Chromium: open a report, press, click, and hear what the page complains of."""

import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

from selenium.webdriver.chrome.webdriver import WebDriver

from viz import draw_report
from viz.scene import Scene

Ask: TypeAlias = Callable[..., Any]  # evaluates an expression of the page


def said(browser: WebDriver) -> list[dict[str, Any]]:
    log: Callable[[str], list[dict[str, Any]]] = browser.get_log
    return log("browser")


def until(condition: Callable[[], Any], what: str) -> Any:
    for _ in range(400):
        found = condition()
        if found:
            return found
        time.sleep(0.025)
    raise AssertionError(f"waited in vain for {what}")


def asking(browser: WebDriver) -> Ask:
    """A function that evaluates an expression in the page."""

    def ask(expression: str, *values: Any) -> Any:
        return browser.execute_script("return " + expression, *values)

    return ask


AS_OPENED = """
const { state, graph, timelines } = simviz;
document.querySelector("dialog[open]")?.close();
document.getElementById("search").value = "";
for (const name of ["timeline", "graph"]) document.getElementById(name).focus();
document.activeElement.blur();
state.set({ colourBy: "device", critical: false, showIdle: false, memory: "own", hits: new Set(), traced: "" });
state.select(null);
graph.closeAll();
for (const one of timelines) one.fit();
"""


def kept(browser: WebDriver, folder: Path, scene: Scene) -> Ask:
    """The scene's report with nothing selected and all scopes closed; loaded only if another page is there."""
    page = (folder / "report.html").as_uri()
    if browser.current_url.partition("#")[0] != page:
        opened(browser, folder, scene)
    browser.execute_script(AS_OPENED)
    settled(browser)
    said(browser)
    return asking(browser)


def opened(browser: WebDriver, folder: Path, scene: Scene) -> Ask:
    """The scene's report, drawn; returns a function that evaluates an expression in the page."""
    page = folder / "report.html"
    page.write_text(draw_report(scene), "utf-8", "replace")
    said(browser)  # what it said before is forgotten
    browser.get(page.as_uri())

    ask = asking(browser)
    done = "document.documentElement.dataset.ready || !document.getElementById('failed').hidden"
    until(lambda: ask(done), "the page")
    assert ask("document.getElementById('failed').hidden")
    text = ask("document.body.innerText")
    assert [word for word in ("undefined", "NaN", "[object") if word in text] == []  # a key that content.py lacks
    assert re.findall(r"[0-9] us\b|[0-9]%", text) == []  # units of the page are µs and a % apart
    return ask


def written(browser: WebDriver) -> Callable[[], list[str]]:
    """From now on hear all that canvases write; the function that is returned says it, and forgets it."""
    browser.execute_script(
        "window.heard = []; const pen = CanvasRenderingContext2D.prototype; window.plain ??= pen.fillText;"
        "pen.fillText = function (said, ...at) { heard.push(said); return plain.call(this, said, ...at); };"
    )

    def say() -> list[str]:
        said: list[str] = browser.execute_script("return window.heard.splice(0)")
        return said

    return say


def settled(browser: WebDriver) -> None:
    """Wait until what was asked for has been painted."""
    browser.execute_async_script("requestAnimationFrame(() => requestAnimationFrame(arguments[0]))")


def press(browser: WebDriver, *keys: Any) -> None:
    from selenium.webdriver.common.action_chains import ActionChains

    ActionChains(browser).send_keys(*keys).perform()
    settled(browser)


def click(browser: WebDriver, canvas: str, x: float, y: float) -> None:
    from selenium.webdriver.common.action_chains import ActionChains

    element = browser.find_element("id", canvas)
    half = element.size["width"] / 2, element.size["height"] / 2
    move = ActionChains(browser).move_to_element_with_offset(element, round(x - half[0]), round(y - half[1]))
    move.click().perform()
    settled(browser)


# Numbers and words that are cut by their column or in the header, letters of charts that are drawn smaller than nine
# pixels, names that are broken into lines of a few letters, and numbers or single words in several lines.
UNREADABLE = """
const seen = (found) => [...document.querySelectorAll(found)].filter((one) => one.checkVisibility());
const cut = seen("td.n").filter((one) => one.scrollWidth > one.clientWidth + 0.5);
const small = seen("svg text").filter((one) => parseFloat(getComputedStyle(one).fontSize) * one.getScreenCTM().a < 9);
const headline = seen(".figures dd").filter((one) => {
  const number = document.createRange();
  number.selectNode(one.firstChild);
  return number.getBoundingClientRect().right > one.getBoundingClientRect().right + 0.5;
});
const narrow = seen(".wrapping td:first-child:not(.n)").map((one) => one.querySelector("bdi") ?? one);
const broken = narrow.filter((one) => one.clientWidth < 60 && one.textContent.length > 6);
const lines = (one) => {
  const text = document.createRange();
  text.selectNodeContents(one);
  const parts = [...text.getClientRects()].filter((part) => part.width > 0);
  return 1 + parts.filter((part, at) => at && part.top > parts[at - 1].bottom - 3).length; // fonts differ in height
};
const end = (one) => one.getBoundingClientRect().right;
const hidden = seen("td .word, .figures small").filter((one) => end(one) > end(one.closest("bdi, dd")) + 0.5);
const notes = seen(".figures small").filter((one) => one.scrollWidth > one.clientWidth + 0.5);
const numbers = seen("td.n").filter((one) => !one.querySelector("small, .meter"));
const parted = [...seen("td .word"), ...numbers].filter((one) => lines(one) > 1);
return [...cut, ...small, ...headline, ...broken, ...parted, ...hidden, ...notes].map((one) => one.textContent);
"""


def beyond(browser: WebDriver, width: int, height: int) -> list[str]:
    """Controls, headings and canvases that reach out of a window of that size, and what can't be read in it."""
    size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    settled(browser)
    parts = "document.querySelectorAll('button, select, input, h1, h2, canvas, .figures dd')"
    seen = f"[...{parts}].filter((one) => one.checkVisibility())"
    out: list[str] = browser.execute_script(
        "const right = (one) => (one ?? document.documentElement).getBoundingClientRect().right;"
        # A bar ends where the window does, or before.
        f"return {seen}.filter((one) => right(one) > right(one.closest('.bar')) + 0.5"
        " || one.getBoundingClientRect().width < 1).map((one) => one.outerHTML.slice(0, 80))"
    )
    browser.execute_script("simviz.state.set({ colourBy: simviz.state.colourBy })")  # the panel is drawn for this width
    out += browser.execute_script(UNREADABLE)
    browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    return out


def complaints(browser: WebDriver) -> list[str]:
    return [entry["message"] for entry in said(browser)]

"""A headless Chromium that touches no network, and what the tests ask it."""
import tempfile
import time

from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
         "--disable-background-networking", "--disable-component-update", "--disable-sync",
         "--disable-dev-shm-usage"]


# Texts that are hard to read: "ratio text" for each below 4.5 (WCAG AA), 3 when large. The background is that of
# the ancestors, each over the one below.
CONTRAST = """
const parse = (c) => { const m = (c.match(/[\\d.]+/g) || [0, 0, 0, 0]).map(Number); return m.length > 3 ? m : [...m, 1]; };
const over = (top, under) => [0, 1, 2].map((i) => top[i] * top[3] + under[i] * (1 - top[3]));
const light = (c) => c.map((v) => v / 255).map((v) => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
  .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
const bad = [], texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
let seen = 0;
while (texts.nextNode()) {
  const e = texts.currentNode.parentElement;
  // A sign inside a circle has the circle's colour behind it.
  if (!texts.currentNode.data.trim() || !e.getClientRects().length || e.closest(".hidden, .skip, .twist, :disabled")) continue;
  const style = getComputedStyle(e), chain = [];
  for (let at = e; at; at = at.parentElement) chain.unshift(parse(getComputedStyle(at).backgroundColor));
  const back = chain.reduce((under, top) => over(top, under), [255, 255, 255]);
  const front = over(parse(e instanceof SVGElement ? style.fill : style.color), back);
  const [a, b] = [light(front), light(back)].sort((x, y) => y - x);
  const ratio = (a + 0.05) / (b + 0.05), size = parseFloat(style.fontSize);
  const large = size >= 24 || (size >= 18.66 && parseInt(style.fontWeight) >= 700);
  ++seen;
  if (ratio < (large ? 3 : 4.5)) bad.push(ratio.toFixed(2) + " " + texts.currentNode.data.trim().slice(0, 40));
}
return [seen, [...new Set(bad)]];
"""

# What sticks out of the window's right edge without a box of its own that scrolls or clips it.
CUT_OFF = """
return [...document.querySelectorAll("body *")].filter((e) => {
  if (e.closest("svg, .hidden, .skip") || !e.getClientRects().length) return false;
  for (let at = e.parentElement; at; at = at.parentElement) {
    if (at !== document.body && getComputedStyle(at).overflowX !== "visible") return false;
  }
  return e.getBoundingClientRect().right > innerWidth + 0.5;
}).map((e) => e.outerHTML.slice(0, 80));
"""


class Browser:
    def __init__(self, chromium, driver):
        self.profile = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        options = webdriver.ChromeOptions()
        options.binary_location = chromium
        for flag in FLAGS + ["--user-data-dir=" + self.profile.name]:
            options.add_argument(flag)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        self.driver = webdriver.Chrome(service=Service(driver), options=options)

    def quit(self):
        self.driver.quit()
        self.profile.cleanup()

    def size(self, width, height=800):
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {
            "width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500})

    def scheme(self, name):
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {
            "features": [{"name": "prefers-color-scheme", "value": name}]})

    def open(self, address):
        """Loads the page afresh and waits until it has drawn itself."""
        self.driver.get("about:blank")
        start = time.monotonic()
        self.driver.get(address)
        self.wait(lambda: self.js("return document.body.dataset.ready") == "yes")
        return time.monotonic() - start

    def go(self, fragment):
        """Another view of the same page."""
        before = self.js("return document.body.dataset.drawn")
        self.js("location.hash = arguments[0]", fragment)
        self.wait(lambda: self.js("return document.body.dataset.drawn") != before)

    def js(self, code, *arguments):
        return self.driver.execute_script(code, *arguments)

    def wait(self, condition, seconds=30):
        WebDriverWait(self.driver, seconds, poll_frequency=0.05).until(lambda _: condition())

    def all(self, selector):
        return self.driver.find_elements(By.CSS_SELECTOR, selector)

    def one(self, selector):
        return self.driver.find_element(By.CSS_SELECTOR, selector)

    def text(self, selector="main"):
        return self.js("return document.querySelector(arguments[0]).innerText", selector)

    def redraws(self, action):
        """Does it and waits for the page to have drawn itself again."""
        before = self.js("return document.body.dataset.drawn")
        action()
        self.wait(lambda: self.js("return document.body.dataset.drawn") != before)

    def errors(self):
        return [e for e in self.driver.get_log("browser") if e["level"] in ("SEVERE", "WARNING")]

    def faint(self):
        """Texts that are hard to read. A page without any text fails."""
        seen, bad = self.js(CONTRAST)
        return bad if seen > 3 else ["no text"]

    def cut_off(self):
        return self.js(CUT_OFF)

    def overflow(self):
        return self.js("return document.documentElement.scrollWidth - window.innerWidth")

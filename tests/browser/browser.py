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

    def overflow(self):
        return self.js("return document.documentElement.scrollWidth - window.innerWidth")

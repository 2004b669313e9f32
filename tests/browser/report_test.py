#!/usr/bin/env python3
"""The report and the live page as a user meets them: in Chromium, by mouse and by keyboard.

Run by ctest. By hand, with screenshots: report_test.py --bin build/ci/bin --shots FOLDER
"""
import argparse
import fcntl
import json
import math
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.error
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).parent))
sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "support"))
import gtest_xml  # noqa: E402
from browser import Browser  # noqa: E402
from selenium.webdriver.common.action_chains import ActionChains  # noqa: E402
from selenium.webdriver.common.keys import Keys  # noqa: E402
from selenium.webdriver.support.ui import Select  # noqa: E402

options = None
browser = None
folder = None


def make_run(name, candidates, *more):
    subprocess.run([options.bin + "/grove-make-run", folder + "/runs", name, str(candidates), *more],
                   check=True)


def grove(*arguments):
    return subprocess.run([options.bin + "/grove", "--runs", folder + "/runs", *arguments],
                          check=True, capture_output=True, text=True, cwd=folder).stdout


def address(name, fragment=""):
    return f"file://{folder}/{name}.html{fragment}"


def setUpModule():
    global browser, folder
    folder = tempfile.mkdtemp()
    make_run("plain", 60)
    make_run("hostile", 24, "hostile")
    for name in ("plain", "hostile"):
        grove("report", name, "-o", f"{folder}/{name}.html")
    browser = Browser(options.chromium, options.driver)


def tearDownModule():
    browser.quit()
    subprocess.run(["rm", "-rf", folder], check=False)


def shot(name):
    if options.shots:
        os.makedirs(options.shots, exist_ok=True)
        browser.driver.save_screenshot(f"{options.shots}/{name}.png")


class Page(unittest.TestCase):
    name = "plain"

    def setUp(self):
        browser.size(1200, 900)
        browser.scheme("light")
        browser.open(address(self.name))
        browser.errors()

    def tearDown(self):
        self.assertEqual(browser.errors(), [])


class Views(Page):
    def test_overview_shows_the_best_time_and_every_baseline(self):
        text = browser.text()
        best = json.loads(grove("show", "plain/best", "--json"))["name"]
        self.assertIn("cublas", browser.js("return document.querySelector('svg.chart').textContent"))
        self.assertIn("class floor", browser.js("return document.querySelector('svg.chart').textContent"))
        self.assertIn("over the seed", text)
        self.assertIn(best, text)
        shot("overview")

    def test_overview_goes_over_tokens_as_well(self):
        Select(browser.one("#over")).select_by_value("tokens")
        self.assertIn("tokens spent", browser.js("return document.querySelector('svg.chart').textContent"))

    def test_every_picture_has_a_table_that_says_the_same(self):
        figures = browser.all("figure")
        self.assertGreaterEqual(len(figures), 3)
        for figure in figures:
            browser.js("arguments[0].querySelector('details').open = true", figure)
            browser.wait(lambda f=figure: browser.js("return arguments[0].querySelectorAll('tbody tr').length", f) > 0)

    def test_a_verdict_leads_to_its_kernels(self):
        link = next(a for a in browser.all("a.bar-row") if "compile error" in a.text)
        browser.redraws(link.click)
        self.assertIn("#/kernels?verdict=compile_error", browser.driver.current_url)
        chips = {c.text for c in browser.all("table.list .chip")}
        self.assertEqual(chips, {"compile error"})

    def test_no_view_scrolls_sideways_at_360_pixels(self):
        browser.size(360, 740)
        best = grove("show", "plain/best", "--json")
        name = json.loads(best)["name"]
        for view in ("overview", "tree", "kernels", "log", "environment", "kernel/" + name):
            browser.open(address("plain", "#/" + view))
            self.assertLessEqual(browser.overflow(), 0, view)
            shot("narrow-" + view.split("/")[0])

    def test_every_text_can_be_read_light_and_dark(self):
        best = json.loads(grove("show", "plain/best", "--json"))["name"]
        for scheme in ("light", "dark"):
            browser.scheme(scheme)
            for view in ("tree", "kernels", "log", "environment", "kernel/" + best, "overview"):
                browser.go("#/" + view)
                self.assertEqual(browser.faint(), [], f"{scheme} {view}")

    def test_the_pictures_lines_have_names_that_do_not_cover_each_other(self):
        for width in (360, 1200):
            browser.size(width, 900)
            browser.open(address("plain"))
            boxes = browser.js("""
                const frame = document.querySelector("svg.chart").getBoundingClientRect();
                return [...document.querySelectorAll("svg.chart .reference-name")].map((e) => {
                  const b = e.getBoundingClientRect();
                  return [b.left - frame.left, b.top - frame.top, b.right - frame.right, b.bottom, b.top, e.textContent];
                });""")
            self.assertGreater(len(boxes), 2)
            for above, below in zip(boxes, boxes[1:]):
                self.assertLess(above[3] - 4, below[4], (width, above, below))  # a line's height has air in it
            for left, _, right, *_, text in boxes:
                self.assertGreaterEqual(left, 0, (width, text))
                self.assertLessEqual(right, 0.5, (width, text))
        browser.size(360, 900)
        browser.open(address("plain"))
        names = browser.js("return [...document.querySelectorAll('.line-names li')].map((e) => e.textContent)")
        self.assertEqual(len(names), browser.js("return document.querySelectorAll('svg.chart .reference').length"))
        self.assertTrue(any(name.startswith("class floor ") for name in names), names)

    def test_the_share_is_that_of_the_class_floor_and_says_so(self):
        best = json.loads(grove("show", "plain/best", "--json"))
        cold = [row for row in best["cases"] if row["mode"] == "cold"]
        mean = lambda key: math.prod(row[key] for row in cold) ** (1 / len(cold))
        tile = next(t for t in browser.all(".tile") if t.text.startswith("of the class floor"))
        self.assertIn(f"{100 * mean('class_floor_ns') / mean('time_ns'):.1f}%", tile.text)
        self.assertIn("class floor", tile.text.split("\n")[2])
        self.assertIn("impossible-floor", browser.js("return document.querySelector('svg.chart').textContent"))

    def test_dark_and_light_are_different_and_the_button_changes_them(self):
        back = "return getComputedStyle(document.body).backgroundColor"
        light = browser.js(back)
        browser.scheme("dark")
        browser.wait(lambda: browser.js(back) != light)
        shot("dark-overview")
        browser.one("#scheme").click()  # light, whatever the system says
        browser.wait(lambda: browser.js(back) == light)


class Tree(Page):
    def setUp(self):
        super().setUp()
        browser.go("#/tree")

    def nodes(self):
        return browser.js("return [...document.querySelectorAll('g.node')].map(n => n.id.slice(5))")

    def test_it_begins_with_the_path_to_the_best(self):
        best = json.loads(grove("show", "plain/best", "--json"))["name"]
        self.assertIn("seed", self.nodes())
        self.assertIn(best, self.nodes())
        self.assertEqual(browser.js("return document.querySelector('.node.is-best').id"), "node-" + best)
        shot("tree")
        browser.scheme("dark")
        shot("dark-tree")

    def test_a_click_closes_and_opens(self):
        before = len(self.nodes())
        seed = browser.one("#node-seed circle")
        browser.js("document.querySelector('.tools').scrollIntoView()")
        browser.js("arguments[0].parentNode.dispatchEvent(new MouseEvent('click', {bubbles: true}))", seed)
        self.assertEqual(self.nodes(), ["seed"])
        browser.js("document.querySelector('#node-seed').dispatchEvent(new MouseEvent('click', {bubbles: true}))")
        self.assertEqual(len(self.nodes()), before)

    def test_open_all_shows_every_kernel_and_idea(self):
        next(b for b in browser.all("button") if b.text == "Open all").click()
        tree = json.loads(grove("tree", "plain", "--json"))
        ideas = sum(len(r["ideas"]) for r in tree["rounds"])
        kernels = sum(len(i["candidates"]) for r in tree["rounds"] for i in r["ideas"])
        self.assertEqual(len(self.nodes()), 1 + ideas + kernels)

    def test_zoom_buttons_and_keys_change_the_scale(self):
        transform = lambda: browser.js("return document.querySelector('svg.tree > g').getAttribute('transform')")
        scale = lambda: float(re.search(r"scale\(([\d.]+)", transform()).group(1))
        browser.wait(transform)  # it is set when the page has been laid out
        before = scale()
        next(b for b in browser.all("button") if b.get_attribute("aria-label") == "Zoom out").click()
        browser.wait(lambda: scale() < before)
        low = scale()
        browser.js("document.querySelector('svg.tree').focus()")
        ActionChains(browser.driver).send_keys("+").perform()
        browser.wait(lambda: scale() > low)

    def test_search_finds_ideas_and_keeps_the_caret(self):
        browser.js("document.activeElement.blur()")
        ActionChains(browser.driver).send_keys("/").perform()
        self.assertEqual(browser.js("return document.activeElement.id"), "search")
        browser.redraws(lambda: ActionChains(browser.driver).send_keys("persistent").perform())
        self.assertEqual(browser.js("return document.activeElement.id"), "search")
        self.assertEqual(browser.js("return document.activeElement.value"), "persistent")
        matched = browser.js("return document.querySelectorAll('.node.match').length")
        self.assertGreater(matched, 0)
        self.assertIn(f"{matched} of", browser.text())
        shot("tree-search")

    def test_filters_narrow_the_tree(self):
        selects = browser.all(".filters select")
        browser.redraws(lambda: Select(selects[0]).select_by_value("compile_error"))
        kinds = browser.js("return [...new Set([...document.querySelectorAll('.node.match')].map(n => n.getAttribute('aria-label').split(', ')[1]))]")
        self.assertEqual(kinds, ["compile error"])
        browser.redraws(lambda: Select(browser.all(".filters select")[2]).select_by_value("2"))
        rounds = browser.js("return [...document.querySelectorAll('.node.match')].map(n => n.id)")
        self.assertTrue(all(r.startswith("node-r2.") for r in rounds), rounds)
        browser.redraws(next(b for b in browser.all("button") if b.text == "Clear").click)
        self.assertEqual(browser.all(".node.match"), [])

    def test_the_keyboard_alone_gets_from_the_seed_to_a_kernels_page(self):
        browser.js("document.querySelector('svg.tree').focus()")
        chosen = lambda: browser.js("return document.querySelector('svg.tree').getAttribute('aria-activedescendant')")
        keys = lambda *k: ActionChains(browser.driver).send_keys(*k).perform()
        keys(Keys.HOME)
        self.assertEqual(chosen(), "node-seed")
        keys(Keys.ARROW_RIGHT)
        first = chosen()
        self.assertTrue(re.fullmatch(r"node-r1\.i\d+", first), first)
        keys(Keys.ARROW_DOWN)
        self.assertNotEqual(chosen(), first)
        keys(Keys.ARROW_LEFT, Keys.ARROW_LEFT)
        keys(Keys.END)
        while not re.fullmatch(r"node-(seed|r\d+\.i\d+\.b\d+)", chosen()):
            keys(Keys.ARROW_UP)
        wanted = chosen()[5:]
        keys(Keys.ENTER)
        browser.wait(lambda: "#/kernel/" + wanted in browser.driver.current_url)


class Kernel(Page):
    def setUp(self):
        super().setUp()
        self.best = json.loads(grove("show", "plain/best", "--json"))
        browser.go("#/kernel/" + self.best["name"])

    def tab(self, name):
        next(b for b in browser.all("[role=tab]") if b.text.startswith(name)).click()
        browser.wait(lambda: browser.text("[role=tabpanel]") != "Reading…")

    def test_it_shows_source_word_for_word_and_highlighted(self):
        code = browser.js("return [...document.querySelectorAll('pre.code li')].map(l => l.textContent).join('\\n')")
        self.assertEqual(code, self.best["source"].rstrip("\n"))
        self.assertGreater(len(browser.all("pre.code .t-cuda")), 3)
        shot("kernel")

    def test_the_difference_is_against_the_parent(self):
        self.tab("Difference")
        self.assertIn(f"{self.best['parent']} to {self.best['name']}", browser.text("[role=tabpanel]"))
        self.assertGreater(len(browser.all("tr.added")), 0)
        self.assertGreater(len(browser.all("tr.removed")), 0)
        browser.js("document.querySelector('[role=tablist]').scrollIntoView()")
        shot("kernel-diff")

    def test_prompt_and_reply_are_there(self):
        self.tab("Prompt")
        text = browser.js("return document.querySelector('[role=tabpanel]').textContent")
        self.assertIn("The kernel to improve", text)
        self.assertIn("Here is the kernel.", text)
        self.assertIn("Where the idea came from", text)

    def test_every_sample_is_a_dot(self):
        dots = browser.js("return [...document.querySelectorAll('.dots:not(.parent)')].map(p => p.getAttribute('d').match(/M/g).length)")
        self.assertEqual(dots, [20, 20])
        self.assertGreater(len(browser.all(".dots.parent")), 0)

    def test_tabs_obey_the_arrow_keys(self):
        browser.js("document.querySelector('[role=tab]').focus()")
        ActionChains(browser.driver).send_keys(Keys.ARROW_RIGHT).perform()
        self.assertEqual(browser.js("return document.activeElement.textContent"), "Difference")
        self.assertEqual(browser.js("return document.activeElement.getAttribute('aria-selected')"), "true")

    def test_an_unknown_kernel_is_said_so(self):
        browser.go("#/kernel/r9.i9.b9")
        self.assertIn("Unknown kernel r9.i9.b9", browser.text())


class KernelList(Page):
    def test_it_sorts_by_a_click_on_a_heading(self):
        browser.go("#/kernels")
        browser.redraws(next(b for b in browser.all("th .sort") if b.text.startswith("over seed")).click)
        gains = [float(t.text[:-1]) for t in browser.all("table.list tbody td:nth-child(7)") if t.text != "-"]
        self.assertEqual(gains, sorted(gains, reverse=True))
        self.assertGreater(len(gains), 10)


class Hostile(Page):
    name = "hostile"

    def test_nothing_of_a_runs_text_is_executed_or_hidden(self):
        names = browser.js("return JSON.parse(document.getElementById('summary').textContent).candidates.map(c => c.name)")
        for view in ["overview", "tree", "kernels", "log", "environment", "kernel/" + names[-1], "kernel/" + names[1]]:
            browser.go("#/" + view)
            for tab in range(len(browser.all("[role=tab]"))):
                browser.js("document.querySelectorAll('[role=tab]')[arguments[0]].click()", tab)
                browser.wait(lambda: browser.text("[role=tabpanel]") != "Reading…")
                self.assertEqual(browser.js("return document.querySelectorAll('main img, main script').length"), 0)
            text = browser.js("return document.body.textContent")
            self.assertNotIn("\u202e", text, view)
            self.assertNotIn("\x1b", text, view)
        self.assertIsNone(browser.js("return window.owned ?? null"))
        self.assertIn("\\u202e", browser.text())
        self.assertIn("</script><script>window.owned=1</script>", browser.text())
        shot("hostile")

    def test_the_policy_stops_what_would_get_in_anyway(self):
        browser.js("const s = document.createElement('script'); s.textContent = 'window.owned = 1'; document.body.append(s);"
                   "const i = document.createElement('div'); i.innerHTML = '<img src=x onerror=\"window.owned=2\">'; document.body.append(i)")
        time.sleep(0.2)
        self.assertIsNone(browser.js("return window.owned ?? null"))
        self.assertTrue(browser.errors())  # Chromium reports both refusals

    def test_the_file_holds_no_markup_of_the_run(self):
        html = pathlib.Path(f"{folder}/hostile.html").read_text()
        self.assertNotIn("<script>window.owned", html)
        self.assertNotIn("<img", html)


class Live(unittest.TestCase):
    def setUp(self):
        browser.size(1200, 900)
        self.process = subprocess.Popen([options.bin + "/grove", "--runs", folder + "/runs", "serve", "--json"],
                                        stdout=subprocess.PIPE, text=True, cwd=folder)
        said = ""
        while not said.rstrip().endswith("}"):
            said += self.process.stdout.readline()
        self.server = json.loads(said)

    def tearDown(self):
        browser.driver.get("about:blank")  # else the page asks for a server that is gone
        browser.errors()
        self.process.terminate()
        self.process.wait(20)
        self.process.stdout.close()

    def test_a_run_grows_in_the_page_while_it_is_written(self):
        make_run("growing", 12)
        browser.open(self.server["url"] + "runs/growing#/kernels")
        before = browser.js("return document.querySelector('[role=status].dim').textContent")
        # The run's folder is replaced by that of a longer one: the same as many rounds at once.
        make_run("longer", 36)
        for file in ("run.db", "lock"):
            os.replace(f"{folder}/runs/longer/{file}", f"{folder}/runs/growing/{file}")
        browser.wait(lambda: browser.js("return document.querySelector('[role=status].dim').textContent") != before)
        self.assertEqual(browser.errors(), [])

    def test_a_real_search_grows_takes_a_hint_and_is_stopped_from_the_page(self):
        search = subprocess.Popen(
            [options.bin + "/grove", "--runs", folder + "/runs", "run", "reduce", "--name", "real", "--device", "emulator",
             "--rounds", "200", "--ideas", "1", "--branches", "1", "--policy", "beam", "--patience", "200"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=folder,
            env={**os.environ, "GROVE_CACHE": folder + "/cache"})
        try:
            deadline = time.monotonic() + 120
            while not os.path.exists(f"{folder}/runs/real/run.db") and time.monotonic() < deadline:
                time.sleep(0.1)
            page = f"{self.server['url']}runs/real?token={self.server['token']}#/overview"

            status = "return document.querySelector('[role=status].dim').textContent"

            def live():  # the run is there once its first transaction is
                browser.open(page)
                return browser.all("#stop")

            browser.wait(live, 60)
            browser.errors()  # what a page said that came before the run
            # No reload: what comes, comes by events.
            browser.js("window.same = true")
            browser.go("#/kernels")
            first = browser.js(status)
            browser.wait(lambda: browser.js(status) != first, 120)
            browser.go("#/tree")
            self.assertTrue(browser.all("#tree .node") or "seed" in browser.text("main"))
            browser.go("#/overview")
            browser.one("#hint-text").send_keys("use <b>cp.async</b>")
            browser.one("#hint-send").click()
            browser.js("document.activeElement.blur()")
            browser.wait(lambda: "use <b>cp.async</b>" in browser.js(
                "return [...document.querySelectorAll('td')].map((c) => c.textContent).join('|')"), 120)
            shot("live-run")
            browser.wait(lambda: browser.all("#stop"))
            browser.one("#stop").click()
            browser.driver.switch_to.alert.accept()
            self.assertIn(search.wait(120), (0, 130))
            browser.wait(lambda: not browser.all("#stop"), 60)
            self.assertEqual(browser.js("return window.same"), True)
            self.assertEqual(browser.errors(), [])
        finally:
            search.kill()
            search.wait(20)
        self.assertIn("stopping", grove("log", "real"))

    def live(self, name):
        """The run's page, while another process (this one) holds the run as a search does."""
        held = open(f"{folder}/runs/{name}/lock", "a")
        self.addCleanup(held.close)
        fcntl.flock(held, fcntl.LOCK_EX)
        return f"{self.server['url']}runs/{name}?token={self.server['token']}"

    def test_at_360_pixels_nothing_is_cut_off_and_all_can_be_read(self):
        browser.size(360, 740)
        page = self.live("plain")
        for scheme in ("light", "dark"):
            browser.scheme(scheme)
            browser.driver.get(self.server["url"])
            self.assertLessEqual(browser.overflow(), 0)
            self.assertEqual((browser.cut_off(), browser.faint()), ([], []))
            # The list needs no scrolling sideways either.
            self.assertEqual(browser.js("const box = document.querySelector('.scroll'); return box.scrollWidth - box.clientWidth"), 0)
            shot("live-list-narrow-" + scheme)
            browser.open(page + "#/overview")
            for view in ("tree", "kernels", "log", "environment", "overview"):
                browser.go("#/" + view)
                self.assertLessEqual(browser.overflow(), 0, view)
                self.assertEqual((browser.cut_off(), browser.faint()), ([], []), f"{scheme} {view}")
                shot(f"live-narrow-{scheme}-{view}")
        browser.scheme("light")
        self.assertEqual(browser.errors(), [])

    def test_the_keyboard_alone_sends_a_hint_and_stops_the_run(self):
        make_run("keys", 12)
        browser.open(self.live("keys") + "#/overview")
        keys = lambda *k: ActionChains(browser.driver).send_keys(*k).perform()
        at = lambda: browser.js("return document.activeElement.id || document.activeElement.textContent")
        passed = []
        while at() != "hint-text":
            keys(Keys.TAB)
            passed.append(at())
            self.assertLess(len(passed), 40, passed)
            self.assertNotEqual(browser.js("return getComputedStyle(document.activeElement).outlineStyle"), "none", at())
        self.assertIn("Tree", passed)
        keys("use cp.async", Keys.TAB, Keys.TAB)
        self.assertEqual(at(), "hint-send")
        keys(Keys.ENTER)
        control = pathlib.Path(folder, "runs/keys/control")
        browser.wait(lambda: len(list(control.glob("*.json"))) == 1)
        keys(Keys.TAB, Keys.TAB, Keys.TAB)
        self.assertEqual(at(), "stop")
        keys(Keys.ENTER)
        browser.driver.switch_to.alert.accept()
        browser.wait(lambda: any('"stop"' in f.read_text() or "stop" in f.name for f in control.iterdir()))
        self.assertEqual(browser.errors(), [])

    def test_without_the_token_what_changes_a_run_is_off(self):
        browser.open(self.live("plain").split("?")[0] + "#/overview")
        self.assertEqual(browser.js("return [...document.querySelector('.hint-form').elements].filter((e) => !e.disabled).length"), 0)
        self.assertIn("Read only", browser.text())

    def test_the_list_names_the_runs(self):
        browser.driver.get(self.server["url"])
        self.assertIn("plain", browser.text("body"))
        shot("live-list")

    def test_a_hint_needs_the_token_and_reaches_the_runs_folder(self):
        hint = {"kind": "hint", "text": "use cp.async"}
        def post(token):
            request = urllib.request.Request(self.server["url"] + "api/runs/plain/control", json.dumps(hint).encode(),
                                             {"Content-Type": "application/json", "X-Grove-Token": token})
            return urllib.request.urlopen(request).read().decode()
        with self.assertRaises(urllib.error.HTTPError):
            post("wrong")
        self.assertEqual(list(pathlib.Path(folder, "runs/plain").glob("control/*.json")), [])
        self.assertIn("passed on", post(self.server["token"]))
        written = list(pathlib.Path(folder, "runs/plain").glob("control/*.json"))
        self.assertEqual(len(written), 1)
        self.assertIn("use cp.async", written[0].read_text())

    def test_another_host_name_is_refused(self):
        request = urllib.request.Request(self.server["url"], headers={"Host": "evil.example:80"})
        with self.assertRaises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(request)
        self.assertEqual(refused.exception.code, 403)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", required=True)
    parser.add_argument("--chromium", default="/usr/bin/chromium")
    parser.add_argument("--driver", default="/usr/bin/chromedriver")
    parser.add_argument("--xml")
    parser.add_argument("--shots")
    parser.add_argument("tests", nargs="*")
    options = parser.parse_args()
    options.bin = os.path.abspath(options.bin)
    sys.exit(gtest_xml.main(sys.modules[__name__], options.tests, options.xml))

#!/usr/bin/env python3
"""How fast a report opens: load_bench.py FILE [TIMES]. Prints milliseconds, the median of TIMES.

drawn: from the start of the navigation until the overview stands. tree, kernels, kernel: from the
click until that view stands. search: from the last key until the tree shows the matches.
"""
import os
import statistics
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from browser import Browser  # noqa: E402

FOLLOW = """
const done = arguments[arguments.length - 1], start = performance.now(), hash = arguments[0];
const before = document.body.dataset.drawn;
const look = () => document.body.dataset.drawn !== before
  ? requestAnimationFrame(() => done(performance.now() - start)) : setTimeout(look, 2);
if (hash.startsWith('#')) location.hash = hash;
else { const s = document.getElementById('search'); s.value = hash; s.dispatchEvent(new Event('input')); }
look();
"""


def main():
    path, times = os.path.abspath(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 5
    browser = Browser("/usr/bin/chromium", "/usr/bin/chromedriver")
    rows, cpu = {}, []
    browser.driver.execute_cdp_cmd("Performance.enable", {"timeDomain": "threadTicks"})
    for _ in range(times):
        browser.size(1200, 900)
        browser.open("file://" + path)
        rows.setdefault("drawn", []).append(browser.js("return Number(document.body.dataset.drawnAt)"))
        metrics = browser.driver.execute_cdp_cmd("Performance.getMetrics", {})["metrics"]
        cpu.append(next(m["value"] for m in metrics if m["name"] == "TaskDuration") * 1000)
        best = browser.js("const d = JSON.parse(document.getElementById('summary').textContent); return d.candidates[d.best].name")
        for name, fragment in (("tree", "#/tree"), ("search", "persistent"), ("kernels", "#/kernels"), ("kernel", "#/kernel/" + best)):
            rows.setdefault(name, []).append(browser.driver.execute_async_script(FOLLOW, fragment))
    print(f"{os.path.getsize(path) / 1e6:.1f} MB, load {os.getloadavg()[0]:.1f}")
    print(f"drawn, CPU time of the page's thread {cpu[0]:.0f} ms")
    for name, values in rows.items():
        print(f"{name:8} {statistics.median(values):7.0f} ms   ({min(values):.0f} to {max(values):.0f})")
    browser.quit()


main()

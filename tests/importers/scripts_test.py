"""The scripts around models, and both tutorials of docs/tutorials.md, at small sizes and with no GPU.

    scripts_test.py GROVE [unittest arguments]        needs a Python with torch
"""
import gzip
import http.server
import json
import os
import py_compile
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import unittest

import torch

GROVE = os.path.abspath(sys.argv.pop(1))
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SCRIPTS, DATA = os.path.join(ROOT, "scripts"), os.path.join(ROOT, "tests", "data")
TASKS = os.path.join(ROOT, "seeds", "tasks")
NINE = {"matmul": "smoke", "layernorm": "smoke", "rmsnorm": "rows3_cols1023_bf16",
        "softmax": "smoke", "flash_attention": "s64_d64_bf16",
        "rotary_embedding": "s127_d64_f32", "cross_entropy": "rows33_classes1023_f32",
        "fused_mlp": "b17_d64_h129_f32", "reduce": "rows33_cols1023_bf16"}
KINDS = {"attention" if task == "flash_attention" else task for task in NINE}


def run(*command, **kwargs):
    return subprocess.run([str(part) for part in command], capture_output=True, text=True,
                          timeout=600, **kwargs)


class InFolder(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="grove-scripts-")
        self.addCleanup(shutil.rmtree, self.folder, True)

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, name, text):
        with open(self.path(name), "w", encoding="utf-8") as file:
            file.write(text)
        return self.path(name)

    def good(self, done):
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout


class Apply(InFolder):
    def apply(self, *arguments):
        return run(sys.executable, os.path.join(SCRIPTS, "apply_model.py"),
                   os.path.join(DATA, "models", "nine_kinds.py"), "--device", "cpu", "--grove", GROVE,
                   "--tasks", TASKS, *arguments)

    def test_every_kind_is_put_back_by_its_exact_shapes_and_agrees(self):
        kernels = []
        for task, case in NINE.items():
            kernels += ["--kernel", f"{task}:{case}={TASKS}/{task}/seed.cu"]
        out = self.good(self.apply("--emulate", "--inputs", "1", "--json", self.path("r.json"), *kernels))
        with open(self.path("r.json"), encoding="utf-8") as file:
            report = json.load(file)
        self.assertEqual(set(report["counts"]), KINDS)
        for kind, counts in report["counts"].items():
            self.assertGreater(counts["applied"], 0, kind)
        self.assertEqual(set(report["operations"]), KINDS)
        for kind, entry in report["operations"].items():
            self.assertTrue(entry["agrees"], kind)
            self.assertGreater(entry["applied"], 0, kind)
        # The projection to 63 columns has no kernel: PyTorch's, counted with its shape.
        self.assertIn("no kernel for f32 64 63 64", report["counts"]["matmul"]["reasons"])
        self.assertIn("times are not", out)
        self.assertNotIn("ms", report["whole"])

    def test_a_wrong_kernel_is_found_and_named(self):
        wrong = self.write("wrong.py", "import torch\n\ndef run(x):\n    return torch.full_like(x, 0.01)\n")
        done = self.apply("--inputs", "1", "--runs", "1", "--kernel", f"softmax:smoke={wrong}")
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertIn("DIFFERS", done.stdout)

    def test_a_right_kernel_of_another_form_is_taken_and_timed(self):
        mine = self.write("mine.py", "import torch\n\ndef run(x):\n    e = torch.exp(x - x.amax(1, True))\n"
                                     "    return e / e.sum(1, True)\n")
        out = self.good(self.apply("--runs", "2", "--kernel", f"softmax:smoke={mine}"))
        self.assertRegex(out, r"all kernels +[0-9.]+ ms +[0-9.]+x +error .* agrees  [1-9]")

    def test_variants_take_turns_and_each_runs_its_own_kernels_only(self):
        body = "import torch\n\ndef run(x):\n    open({!r}, 'a').write('x')\n    return {}\n"
        counts = {name: self.path(name) for name in ("softmax", "reduce")}
        softmax = self.write("softmax.py", body.format(counts["softmax"], "torch.softmax(x, 1)"))
        total = self.write("reduce.py", body.format(counts["reduce"], "x.sum(1)"))
        self.good(self.apply("--runs", "2", "--inputs", "1", "--json", self.path("r.json"),
                             "--kernel", f"softmax:smoke={softmax}",
                             "--kernel", f"reduce:rows33_cols1023_bf16={total}"))
        with open(self.path("r.json"), encoding="utf-8") as file:
            report = json.load(file)
        for name, entry in report["operations"].items():
            self.assertAlmostEqual(entry["ms"] * entry["speedup"], report["untouched_ms"])
            # Compared once with the others and once alone; then three rounds of both, the first
            # for warming up, of two calls each. None of the untouched model.
            with open(counts[name], encoding="utf-8") as file:
                self.assertEqual(len(file.read()), (1 + 1 + 3 * 2 * 2) * entry["applied"], name)

    def test_bad_input_is_one_line(self):
        for arguments, words in ((["--kernel", "softmax=x.py"], "expected TASK:CASE=FILE"),
                                 (["--kernel", "softmax:smoke=nowhere.py"], "is not there"),
                                 (["--kernel", f"softmax:smoke={TASKS}/softmax/seed.cu"], "--emulate only"),
                                 (["--kernel", f"conv2d:smoke={TASKS}/conv2d/seed.cu"], "is none of")):
            done = self.apply(*arguments)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(words, done.stderr)
            self.assertEqual(done.stderr.count("\n"), 1, done.stderr)


class ProfileModel(InFolder):
    def test_a_trace_has_steps_and_operations_and_shapes_where_torch_records_them(self):
        trace = self.path("trace.json.gz")
        out = self.good(run(sys.executable, os.path.join(SCRIPTS, "profile_model.py"),
                            "torch.nn:Linear", "--init", "[8, 4]", "--input", "3,8:f32", "--device", "cpu",
                            "--output", trace))
        self.assertIn("no kernel ran on a GPU", out)
        with gzip.open(trace, "rt", encoding="utf-8") as file:
            events = json.load(file)
        if isinstance(events, dict):  # 1.13 writes a bare list
            events = events["traceEvents"]
        names = {e.get("name") for e in events}
        self.assertIn("ProfilerStep#1", names)
        shapes = [e["args"]["Input Dims"] for e in events
                  if e.get("name") == "aten::linear" and "Input Dims" in e.get("args", {})]
        self.assertIn("aten::addmm", names)
        self.assertIn([[3, 8], [4, 8], [4]], shapes)  # also of a build without Kineto (Debian's)
        ranked = run(GROVE, "rank", trace)  # operations are no kernels: said, not crashed on
        self.assertEqual(ranked.returncode, 2, ranked.stdout)
        self.assertEqual(ranked.stderr.count("\n"), 1, ranked.stderr)
        groups = json.loads(self.good(run(GROVE, "--json", "rank", trace, "--cpu")))["groups"]
        linear = next(g for g in groups if g["name"] == "aten::linear")
        self.assertEqual((linear["task"]["name"], linear["task"]["dims"]), ("matmul", "M=3, N=4, K=8"))
        self.assertEqual(linear["count"], 3)  # four steps, the first is warm-up

    def test_a_model_that_is_not_there_is_one_line(self):
        done = run(sys.executable, os.path.join(SCRIPTS, "profile_model.py"), "nowhere.py",
                   "--output", self.path("t.json"))
        self.assertNotEqual(done.returncode, 0)
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        self.assertEqual(os.listdir(self.folder), [])


class FlashInferSolution(InFolder):
    def setUp(self):
        super().setUp()
        self.kernel = self.write("k.py", "def run(x, weight):\n    return x * weight\n")
        self.definition = os.path.join(DATA, "flashinfer", "scaled_rows.json")
        self.workloads = os.path.join(DATA, "flashinfer", "scaled_rows.jsonl")

    def convert(self, evaluation=None, *arguments):
        command = [sys.executable, os.path.join(SCRIPTS, "flashinfer_solution.py"), self.definition,
                   "--kernel", self.kernel, "--solution", self.path("s.json"), *arguments]
        if evaluation is not None:
            command += ["--eval", self.write("e.json", json.dumps(evaluation)), "--workloads",
                        self.workloads, "--trace", self.path("t.jsonl")]
        return run(*command)

    def test_a_solution_names_its_entry_and_carries_its_sources(self):
        self.good(self.convert())
        with open(self.path("s.json"), encoding="utf-8") as file:
            made = json.load(file)
        self.assertEqual(made["definition"], "scaled_rows_h96")
        self.assertEqual(made["spec"]["entry_point"], "main.py::run")
        sources = {s["path"]: s["content"] for s in made["sources"]}
        self.assertIn("def run(x, weight, eps)", sources["main.py"])
        self.assertNotIn("eps.contiguous", sources["main.py"])
        self.assertIn("x * weight", sources["kernel.py"])

    def test_a_measured_evaluation_becomes_a_line_for_each_workload(self):
        self.good(self.convert(
            {"verdict": "pass", "score_kind": "measured", "worst_error": 1e-7,
             "times": [{"case": "b32", "time_ns": 2000}, {"case": "b200", "time_ns": 4000}]},
            "--reference-ms", "b32=0.004"))
        with open(self.path("t.jsonl"), encoding="utf-8") as file:
            lines = [json.loads(line) for line in file]
        self.assertEqual([line["workload"]["uuid"] for line in lines], ["b32", "b200"])
        first = lines[0]["evaluation"]
        self.assertEqual(first["status"], "PASSED")
        self.assertAlmostEqual(first["performance"]["latency_ms"], 0.002)
        self.assertAlmostEqual(first["performance"]["speedup_factor"], 2.0)

    def test_a_wrong_result_has_no_performance(self):
        self.good(self.convert({"verdict": "wrong_result", "message": "too large", "times": []}))
        with open(self.path("t.jsonl"), encoding="utf-8") as file:
            entry = json.loads(file.readline())["evaluation"]
        self.assertEqual(entry["status"], "INCORRECT_NUMERICAL")
        self.assertIsNone(entry["performance"])

    def test_modelled_times_are_no_trace_and_nothing_is_written(self):
        done = self.convert({"verdict": "pass", "score_kind": "modelled",
                             "times": [{"case": "b32", "time_ns": 2000}]})
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("modelled", done.stderr)
        self.assertFalse(os.path.exists(self.path("s.json")))


class Writer(http.server.BaseHTTPRequestHandler):
    """A model that answers with the one idea and the one program that it is given."""
    program = ""

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        idea = {"ideas": [{"title": "One kernel for all", "category": "fusion", "expected_gain": 3.0,
                           "rationale": "the row is read once and kept in shared memory"}]}
        text = json.dumps(idea) if "ideas wanted" in body else self.program
        event = {"id": "x", "object": "chat.completion.chunk", "model": "m",
                 "choices": [{"index": 0, "delta": {"content": text}, "finish_reason": "stop"}],
                 "usage": {"prompt_tokens": 100, "completion_tokens": 50, "total_tokens": 150}}
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        self.wfile.write(f"data: {json.dumps(event)}\n\ndata: [DONE]\n\n".encode())

    def log_message(self, *_):
        pass


ROWS = """One kernel.
```cuda
extern "C" __global__ void rows_in_one(const tensor::x* x, const tensor::scale* scale, tensor::out* out) {
  __shared__ float part[8];
  constexpr int kEach = (dim::width + 127) / 128;
  const long long row = blockIdx.x * static_cast<long long>(dim::width);
  float value[kEach], top = -3e38f, sum = 0;
  for (int i = 0; i < kEach; ++i) {
    const int at = threadIdx.x + 128 * i;
    value[i] = at < dim::width ? x[row + at] * scale[at] : -3e38f;
    top = fmaxf(top, value[i]);
  }
  for (int d = 16; d > 0; d /= 2) top = fmaxf(top, __shfl_xor_sync(~0u, top, d));
  if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = top;
  __syncthreads();
  top = fmaxf(fmaxf(part[0], part[1]), fmaxf(part[2], part[3]));
  for (int i = 0; i < kEach; ++i) {
    value[i] = threadIdx.x + 128 * i < dim::width ? expf(value[i] - top) : 0;
    sum += value[i];
  }
  for (int d = 16; d > 0; d /= 2) sum += __shfl_xor_sync(~0u, sum, d);
  if (threadIdx.x % 32 == 0) part[4 + threadIdx.x / 32] = sum;
  __syncthreads();
  sum = part[4] + part[5] + part[6] + part[7];
  for (int i = 0; i < kEach; ++i) {
    if (threadIdx.x + 128 * i < dim::width) out[row + threadIdx.x + 128 * i] = value[i] / sum;
  }
}
```
```json
{"version": 1, "launches": [{"kernel": "rows_in_one", "grid": "rows", "block": 128, "args": ["x", "scale", "out"]}]}
```
"""


def sections(page):
    """title -> [(fence's information, text)] of a page's sections."""
    found, title, fence = {}, "", None
    with open(page, encoding="utf-8") as file:
        for line in file:
            if fence is not None:
                if line.startswith("```"):
                    found.setdefault(title, []).append(fence)
                    fence = None
                else:
                    fence = (fence[0], fence[1] + line)
            elif line.startswith("```"):
                fence = (line[3:].strip(), "")
            elif line.startswith("## "):
                title = line[3:].strip()
    return found


class Tutorials(InFolder):
    """docs/tutorials.md as it stands: files are written, commands run in a shell, and each line below
    a command must appear in what it printed."""

    PAGE = sections(os.path.join(ROOT, "docs", "tutorials.md"))

    def setUp(self):
        super().setUp()
        os.mkdir(self.path("bin"))
        os.symlink(GROVE, self.path("bin/grove"))
        os.symlink(SCRIPTS, self.path("scripts"))
        python = self.write("bin/python3", f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
        os.chmod(python, 0o755)
        Writer.program = ROWS
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Writer)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        self.environment = {**os.environ, "PATH": self.path("bin") + os.pathsep + os.environ["PATH"],
                            "GROVE_PYTHON": sys.executable, "OPENAI_API_KEY": "sk-test",
                            "GROVE_BASE_URL": f"http://127.0.0.1:{server.server_port}/v1"}

    def follow(self, title):
        commands = 0
        for information, text in self.PAGE[title]:
            name = re.search(r"file=(\S+)", information)
            if name:
                self.write(name.group(1), text)
            if not information.startswith("console"):
                continue
            printed = command = ""
            for line in text.splitlines():
                if line.startswith("$ "):
                    command = line[2:]
                    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True,
                                          timeout=600, cwd=self.folder, env=self.environment)
                    printed = done.stdout + done.stderr
                    self.assertEqual(done.returncode, 0, f"{command}\n{printed}")
                    commands += 1
                elif line:
                    self.assertIn(line, printed, command)
        return commands

    def test_from_a_module_to_an_exported_kernel(self):
        self.assertEqual(self.follow("From a PyTorch module to an exported kernel"), 7)
        py_compile.compile(self.path("rows_kernel.py"), doraise=True)

    def test_from_a_model_to_its_gain(self):
        self.assertEqual(self.follow("From a model to its end-to-end gain"), 5)

    def test_a_kernel_that_differs_from_the_living_module_is_found(self):
        out = self.good(run(GROVE, "--tasks", self.path("tasks"), "import", "kernelbench",
                            os.path.join(DATA, "problems", "fair", "linear_chain.py"),
                            env=self.environment))
        self.assertIn("imported", out)
        folder = self.path("tasks/linear_chain")
        check = [sys.executable, os.path.join(SCRIPTS, "live_check.py"), folder]
        more = ["--case", "odd", "--seeds", "1", "--device", "cpu", "--grove", GROVE]
        self.assertIn("agrees", self.good(run(*check, os.path.join(folder, "seed.cu"), *more)))
        with open(os.path.join(folder, "seed.cu"), encoding="utf-8") as file:
            text = file.read()
        self.assertIn("Real(b2[t1])", text)  # the bias
        wrong = self.write("wrong.cu", text.replace("Real(b2[t1])", "1.01f * Real(b2[t1])"))
        shutil.copy(os.path.join(folder, "seed.json"), self.path("wrong.json"))
        done = run(*check, wrong, *more)
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertIn("DIFFERS", done.stdout)
        os.remove(os.path.join(folder, "problem.json"))
        done = run(*check, wrong, *more)
        self.assertEqual(done.returncode, 2)
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)

    def test_the_module_itself_is_what_pytorch_is_timed_with(self):
        self.good(run(GROVE, "--tasks", self.path("tasks"), "import", "kernelbench",
                      os.path.join(DATA, "problems", "fair", "layer_norm.py"), env=self.environment))
        sys.path[:0] = [SCRIPTS, os.path.join(ROOT, "seeds", "importers", "torch")]
        import live
        module = live.Live(self.path("tasks/layer_norm"))
        x = torch.randn(2048, 512)
        got = live.outputs(module.function("full"), x)[0]
        right = torch.nn.functional.layer_norm(x, (512,), module.stored("full/norm_weight"),
                                               module.stored("full/norm_bias"))
        self.assertTrue(torch.equal(got, right))
        double = live.outputs(module.function("full", double=True), x.double())[0]
        self.assertLess((double - right).abs().max().item(), 1e-5)
        with self.assertRaises(live.NotAlive):
            module.function("nowhere")

    def test_what_cannot_be_imported_is_refused_with_nothing_left(self):
        done = run(GROVE, "--tasks", self.path("tasks"), "import", "kernelbench",
                   os.path.join(DATA, "problems", "refused", "no_tensor.py"),
                   env={**os.environ, "GROVE_PYTHON": sys.executable})
        self.assertEqual(done.returncode, 2, done.stdout)
        self.assertIn("forward returns no tensor", done.stderr)
        self.assertEqual(os.listdir(self.path("tasks")), [])


if __name__ == "__main__":
    unittest.main()

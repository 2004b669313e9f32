#!/usr/bin/env python3
"""The way back to flashinfer-bench: a solution of a kernel, and traces of its evaluation.

    flashinfer_solution.py DEFINITION.json --kernel FILE.py --solution OUT.json
        [--workloads W.jsonl --eval EVAL.json --trace OUT.jsonl] [--hardware NVIDIA_H200] ...

FILE.py defines run(*inputs) and needs nothing but torch: what `grove export` writes for PyTorch. Its
arguments are the definition's tensors in order; scalars, which a task fixes, are accepted and left
out. EVAL.json is what `grove --json eval TASK SOURCE` printed for the imported task; each of its
scored cases becomes a line of the trace, with the workload that it was made from. Needs no torch.
"""
import argparse
import ast
import datetime
import json
import os
import platform
import re
import sys

# Our verdicts as the format's states; what has none is an error while running.
STATUS = {"pass": "PASSED", "compile_error": "COMPILE_ERROR", "compile_timeout": "COMPILE_ERROR",
          "compile_memory": "COMPILE_ERROR", "parse_error": "COMPILE_ERROR",
          "plan_error": "COMPILE_ERROR", "wrong_result": "INCORRECT_NUMERICAL",
          "unstable": "INCORRECT_NUMERICAL", "unwritten": "INCORRECT_NUMERICAL",
          "nondeterministic": "INCORRECT_NUMERICAL", "lower_class": "INCORRECT_NUMERICAL"}
MOST_BYTES = 64 << 20


class BadInput(Exception):
    """The text says what, where and what to do."""


def read(path):
    try:
        if os.path.getsize(path) > MOST_BYTES:
            raise BadInput(f"{path}: larger than {MOST_BYTES >> 20} MiB")
        with open(path, encoding="utf-8") as file:
            return file.read()
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"{path}: {error}") from None


def read_json(path):
    try:
        value = json.loads(read(path))
    except ValueError as error:
        raise BadInput(f"{path}: not JSON: {error}") from None
    if not isinstance(value, dict):
        raise BadInput(f"{path}: expected an object")
    return value


def write(path, text):
    aside = path + ".new"
    with open(aside, "w", encoding="utf-8") as file:
        file.write(text)
    os.replace(aside, path)


def solution(definition, options):
    text = read(options.kernel)
    try:
        names = {n.name for n in ast.parse(text).body if isinstance(n, ast.FunctionDef)}
    except SyntaxError as error:
        raise BadInput(f"{options.kernel}:{error.lineno}: {error.msg}") from None
    if "run" not in names:
        raise BadInput(f"{options.kernel}: defines no run(*inputs)")
    inputs = definition["inputs"]
    arguments = ", ".join(inputs)
    tensors = ", ".join(f"{name}.contiguous()" for name, entry in inputs.items()
                        if entry["shape"] is not None)
    entry = f"from kernel import run as _run\n\n\ndef run({arguments}):\n    return _run({tensors})\n"
    return {"name": options.name or f"grove_{definition['name']}", "definition": definition["name"],
            "author": options.author, "description": options.description,
            "spec": {"language": "python", "target_hardware": [options.hardware],
                     "entry_point": "main.py::run", "destination_passing_style": False,
                     "binding": "torch", "dependencies": ["torch"]},
            "sources": [{"path": "main.py", "content": entry},
                        {"path": "kernel.py", "content": text}]}


def label(text):  # as seeds/importers/torch/foreign.py names cases
    return "".join(c if c.isalnum() and c.isascii() or c in "_." else "_" for c in text)[:48]


def workloads(definition, path):
    found = {}
    for number, line in enumerate(read(path).splitlines(), 1):
        if not line.strip():
            continue
        try:
            entry = json.loads(line)
        except ValueError as error:
            raise BadInput(f"{path}:{number}: not JSON: {error}") from None
        if not isinstance(entry, dict):
            raise BadInput(f"{path}:{number}: expected an object")
        workload = entry.get("workload", entry)
        if entry.get("definition", definition["name"]) == definition["name"] and isinstance(
                workload, dict) and "uuid" in workload:
            found[label(str(workload["uuid"])[:12]).strip("_")] = workload
    return found


def number(value):
    return value if isinstance(value, (int, float)) else None


def traces(definition, made, options):
    evaluation = read_json(options.eval)
    status = STATUS.get(evaluation.get("verdict"), "RUNTIME_ERROR")
    timed = {case.get("case"): case for case in evaluation.get("times", [])}
    stamp = datetime.datetime.now(datetime.timezone.utc).isoformat()
    lines = []
    for name, workload in workloads(definition, options.workloads).items():
        case = timed.get(name)
        if status == "PASSED" and case is None:
            continue  # an extra workload that the task does not have
        result = {"status": status, "log": str(evaluation.get("message", ""))[:4000],
                  "correctness": None, "performance": None,
                  "environment": {"hardware": options.hardware,
                                  "libs": {"python": platform.python_version()}},
                  "timestamp": stamp}
        if status in ("PASSED", "INCORRECT_NUMERICAL"):
            result["correctness"] = {
                "max_relative_error": number(evaluation.get("worst_error")) or 0.0,
                "max_absolute_error": number(evaluation.get("worst_absolute_error")) or 0.0}
        if status == "PASSED":
            if evaluation.get("score_kind") != "measured" and not options.modelled:
                raise BadInput(f"{options.eval}: its times are modelled, not measured; a trace is of "
                               "a GPU (--modelled writes it all the same)")
            latency = case["time_ns"] / 1e6
            reference = options.reference_ms.get(name)
            result["performance"] = {"latency_ms": latency, "reference_latency_ms": reference or 0.0,
                                     "speedup_factor": reference / latency if reference else 0.0}
        lines.append({"definition": definition["name"], "solution": made["name"],
                      "workload": workload, "evaluation": result})
    if not lines:
        raise BadInput(f"{options.workloads}: no workload is a timed case of {options.eval}")
    return "".join(json.dumps(line) + "\n" for line in lines)


def main():
    parser = argparse.ArgumentParser(description="solution and traces for flashinfer-bench")
    parser.add_argument("definition")
    parser.add_argument("--kernel", required=True, help="Python file with run(*inputs)")
    parser.add_argument("--solution", required=True, help="JSON to write")
    parser.add_argument("--workloads", help="the JSONL that the task was imported with")
    parser.add_argument("--eval", help="what grove --json eval printed")
    parser.add_argument("--trace", help="JSONL to write")
    parser.add_argument("--name", help="of the solution")
    parser.add_argument("--author", default="grove")
    parser.add_argument("--description", default="found by branching tree search")
    parser.add_argument("--hardware", default="NVIDIA_H200")
    parser.add_argument("--reference-ms", action="append", default=[], metavar="UUID=MS",
                        help="the reference's time for a workload")
    parser.add_argument("--modelled", action="store_true", help="take modelled times")
    options = parser.parse_args()
    try:
        options.reference_ms = {}
        for text in parser.parse_args().reference_ms:
            if not re.fullmatch(r"[^=]+=[0-9.]+", text):
                raise BadInput(f"--reference-ms {text}: expected UUID=MS")
            uuid, _, value = text.partition("=")
            options.reference_ms[label(uuid[:12]).strip("_")] = float(value)
        if bool(options.trace) != bool(options.eval) or bool(options.trace) != bool(
                options.workloads):
            raise BadInput("--trace needs --eval and --workloads, and they need it")
        definition = read_json(options.definition)
        for key in ("name", "inputs", "outputs"):
            if key not in definition:
                raise BadInput(f"{options.definition}: no '{key}'")
        made = solution(definition, options)
        lines = traces(definition, made, options) if options.trace else None
        write(options.solution, json.dumps(made, indent=1) + "\n")
        if lines is not None:
            write(options.trace, lines)
    except BadInput as error:
        sys.exit(f"flashinfer_solution: {error}")


if __name__ == "__main__":
    main()

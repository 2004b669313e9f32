#!/usr/bin/env python3
"""Profiles a PyTorch model for `grove rank`.

    profile_model.py MODEL --output trace.json.gz [--steps 4] [--device cuda] [--dtype f16] ...

Writes the Chrome trace of torch.profiler over the steps, with input shapes, each marked as a
ProfilerStep so that the first is left out as warm-up. On a machine with no GPU the trace has
operations and no kernels, and this says so: `grove rank --cpu` ranks those. scripts/model_source.py says how models
are named.
"""
import argparse
import gzip
import json
import os
import shutil
import sys
import tempfile

import torch
from torch.profiler import ProfilerActivity, profile, record_function

import model_source


def write_operations(profiler, file):
    """The trace of a build without Kineto (Debian's), whose own lacks the shapes."""
    events, step, end = [], 0, 0
    for event in sorted(profiler.events(), key=lambda e: (e.time_range.start, -e.time_range.end)):
        time = {"ph": "X", "pid": 1, "tid": event.thread, "ts": event.time_range.start,
                "dur": event.time_range.end - event.time_range.start}
        if event.name.startswith("ProfilerStep"):
            events.append({**time, "cat": "user_annotation", "name": f"ProfilerStep#{step}"})
            step, end = step + 1, event.time_range.end
        elif event.time_range.start < end:  # what is outside of a step is the profiler's own
            events.append({**time, "cat": "cpu_op", "name": event.name,
                           "args": {"External id": event.id, "Input Dims": event.input_shapes}})
    with open(file, "w", encoding="utf-8") as stream:
        json.dump({"traceEvents": events}, stream)


def main():
    parser = argparse.ArgumentParser(description="profile a model for grove rank")
    model_source.add_arguments(parser)
    parser.add_argument("--output", required=True, help="trace.json or trace.json.gz")
    parser.add_argument("--steps", type=int, default=4, help="runs; the first is warm-up (default 4)")
    options = parser.parse_args()
    try:
        source = model_source.Source(options)
    except model_source.BadModel as error:
        sys.exit(f"profile_model: {error}")
    cuda = str(options.device).startswith("cuda")
    inputs = source.inputs(options.seed + 1)
    source.call(inputs)  # allocations and lazy loading are not the model's
    activities = [ProfilerActivity.CPU] + ([ProfilerActivity.CUDA] if cuda else [])
    with profile(activities=activities, record_shapes=True) as profiler:
        for step in range(max(2, options.steps)):
            with record_function(f"ProfilerStep#{step}"):
                source.call(inputs)
                if cuda:
                    torch.cuda.synchronize()
    folder = os.path.dirname(os.path.abspath(options.output))
    handle, aside = tempfile.mkstemp(suffix=".json", dir=folder)
    os.close(handle)
    try:
        if cuda or torch.autograd.kineto_available():
            profiler.export_chrome_trace(aside)
        else:
            write_operations(profiler, aside)
        if options.output.endswith(".gz"):
            with open(aside, "rb") as plain, gzip.open(aside + ".gz", "wb") as packed:
                shutil.copyfileobj(plain, packed)
            os.replace(aside + ".gz", options.output)
        else:
            os.replace(aside, options.output)
    finally:
        for left in (aside, aside + ".gz"):
            if os.path.exists(left):
                os.remove(left)
    kernels = sum(1 for event in profiler.events() if event.device_type != torch.autograd.DeviceType.CPU)
    print(f"wrote {options.output}: {max(2, options.steps)} steps on {options.device}")
    if kernels == 0:
        print("no kernel ran on a GPU: the trace has operations and shapes, and no times of kernels\n"
              f"next: grove rank --cpu {options.output}")
    else:
        print(f"next: grove rank {options.output}")


if __name__ == "__main__":
    main()

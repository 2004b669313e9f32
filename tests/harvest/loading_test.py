#!/usr/bin/env python3
"""A harvest of a made-up run, loaded with pandas and pyarrow in each of its formats."""
import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

import pandas
import pyarrow.parquet

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "support"))
import gtest_xml  # noqa: E402

options = None
folder = None


def harvest(output, *arguments):
    environment = dict(os.environ, GROVE_PYTHON=sys.executable)
    subprocess.run([options.bin + "/grove", "--runs", folder + "/runs", "harvest", "a", "-o",
                    f"{folder}/{output}", *arguments], check=True, env=environment, capture_output=True)
    return json.load(open(f"{folder}/{output}/manifest.json"))


def setUpModule():
    global folder
    folder = tempfile.mkdtemp()
    subprocess.run([options.bin + "/grove-make-run", folder + "/runs", "a", "60"], check=True)


def tearDownModule():
    shutil.rmtree(folder)


class Loading(unittest.TestCase):
    def check(self, frames, manifest):
        counts = {f["name"].split(".")[0]: f["records"] for f in manifest["files"] if f["records"]}
        self.assertEqual({kind: len(frame) for kind, frame in frames.items()}, counts)
        self.assertEqual(len(counts), 6)
        nodes = frames["nodes"]
        passed = nodes[nodes["correct"]]
        self.assertTrue((passed["score_ns"] > 0).all())
        self.assertTrue(nodes[~nodes["correct"].astype(bool)]["score_ns"].isna().all())
        self.assertTrue(nodes["code"].str.contains("__global__").all())
        # A training pair is found by its name, and the gain is the quotient of the times.
        edges = frames["edges"]
        self.assertTrue(((edges["parent_ns"] / edges["child_ns"] - edges["gain"]).abs() < 1e-9).all())
        talk = frames["conversations"]["messages"].iloc[0]
        self.assertEqual([m["role"] for m in talk], ["system", "user", "assistant"])

    def test_json_lines_with_pandas(self):
        manifest = harvest("jsonl")
        frames = {f["name"].split(".")[0]: pandas.read_json(f"{folder}/jsonl/{f['name']}", lines=True)
                  for f in manifest["files"] if f["records"]}
        self.check(frames, manifest)

    def test_zstd_with_pandas(self):
        manifest = harvest("zstd", "--format", "jsonl.zst")
        frames = {f["name"].split(".")[0]: pandas.read_json(f"{folder}/zstd/{f['name']}", lines=True, compression="zstd")
                  for f in manifest["files"] if f["records"]}
        self.check(frames, manifest)

    def test_parquet_with_pandas_and_pyarrow(self):
        manifest = harvest("parquet", "--format", "parquet")
        self.assertEqual(list(pathlib.Path(folder, "parquet").glob("*.jsonl")), [])
        frames = {f["name"].split(".")[0]: pandas.read_parquet(f"{folder}/parquet/{f['name']}")
                  for f in manifest["files"] if f["records"]}
        self.check(frames, manifest)
        schema = pyarrow.parquet.read_schema(f"{folder}/parquet/nodes.parquet")
        self.assertEqual(str(schema.field("score_ns").type), "double")
        self.assertEqual(str(schema.field("correct").type), "bool")

    def test_the_same_store_gives_the_same_parquet(self):
        first = harvest("p1", "--format", "parquet")
        second = harvest("p2", "--format", "parquet")
        self.assertEqual(first, second)

    def test_without_pyarrow_the_json_lines_stay_and_the_message_says_how(self):
        bare = f"{folder}/bare-python"
        pathlib.Path(bare).write_text("#!/bin/sh\nexec /usr/bin/env python3 -S -I \"$@\"\n")
        os.chmod(bare, 0o755)
        result = subprocess.run([options.bin + "/grove", "--runs", folder + "/runs", "harvest", "a", "-o",
                                 f"{folder}/none", "--format", "parquet"], capture_output=True, text=True,
                                env=dict(os.environ, GROVE_PYTHON=bare))
        self.assertEqual(result.returncode, 3)
        self.assertIn("pip install pyarrow", result.stderr)
        self.assertTrue(os.path.exists(f"{folder}/none/nodes.jsonl"))
        self.assertTrue(os.path.exists(f"{folder}/none/manifest.json"))
        # As it says: converted later, by a Python that has it.
        script = pathlib.Path(__file__).resolve().parents[2] / "scripts/to_parquet.py"
        done = subprocess.run([sys.executable, script, f"{folder}/none"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("the manifest was of the JSON lines and is removed", done.stdout)
        self.assertGreater(len(pandas.read_parquet(f"{folder}/none/nodes.parquet")), 0)
        self.assertFalse(os.path.exists(f"{folder}/none/manifest.json"))
        card = pathlib.Path(f"{folder}/none/README.md").read_text()
        self.assertIn("data_files: nodes.parquet", card)
        self.assertNotIn(".jsonl", card)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", required=True)
    parser.add_argument("--xml")
    parser.add_argument("tests", nargs="*")
    options = parser.parse_args()
    options.bin = os.path.abspath(options.bin)
    sys.exit(gtest_xml.main(sys.modules[__name__], options.tests, options.xml))

#!/usr/bin/env python3
"""Turns the JSON lines that `grove harvest` wrote into Parquet, in place.

Usage: scripts/to_parquet.py FOLDER      needs pyarrow (python3 -m pip install pyarrow)

Every *.jsonl and *.jsonl.zst becomes *.parquet with the same rows; an empty file becomes a table
without columns. The same lines give the same bytes with the same pyarrow. `grove harvest --format
parquet` runs this and writes its manifest afterwards; a manifest that is there already is of the JSON
lines, so it goes (with a line that says so), and the card names the new files.
"""
import os
import pathlib
import sys


def read(path):
    import pyarrow
    import pyarrow.json

    with pyarrow.input_stream(str(path), compression="zstd" if path.suffix == ".zst" else None) as stream:
        text = stream.read()
    if not text.strip():
        return pyarrow.table({})
    # Records may be long: a block must hold at least one whole line.
    longest = max(len(line) for line in text.split(b"\n")) + 2
    options = pyarrow.json.ReadOptions(block_size=max(1 << 20, len(text) + 1, longest))
    return pyarrow.json.read_json(pyarrow.BufferReader(text), read_options=options)


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    try:
        import pyarrow.parquet
    except ImportError:
        sys.exit("pyarrow is not installed")
    folder = pathlib.Path(sys.argv[1])
    files = sorted(p for p in folder.iterdir() if p.name.endswith((".jsonl", ".jsonl.zst")))
    if not files:
        sys.exit(f"no .jsonl or .jsonl.zst in {folder}")
    for path in files:
        target = folder / (path.name.split(".jsonl")[0] + ".parquet")
        partial = target.with_suffix(".partial")
        pyarrow.parquet.write_table(read(path), partial, compression="zstd")
        os.replace(partial, target)
        path.unlink()
    card = folder / "README.md"
    if card.exists():
        text = card.read_text(encoding="utf-8")
        for path in files:
            text = text.replace(path.name, path.name.split(".jsonl")[0] + ".parquet")
        card.write_text(text, encoding="utf-8")
    stale = [p for p in (folder / "manifest.json", folder / "manifest.xxh128") if p.exists()]
    for path in stale:
        path.unlink()
    if stale:
        print("the manifest was of the JSON lines and is removed; `grove harvest --format parquet` writes one")


main()

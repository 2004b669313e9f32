"""Writes and reads the safetensors format: 8 bytes of header length, a JSON header, the data."""

import json
import os
import struct

import torch

NAMES = {torch.float64: "F64", torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16",
         torch.int64: "I64", torch.int32: "I32", torch.int8: "I8", torch.uint8: "U8",
         torch.bool: "BOOL"}


def save(path, tensors):
    """`tensors`: name -> tensor; written contiguous, in order."""
    header, offset, parts = {}, 0, []
    for name, tensor in tensors.items():
        tensor = tensor.detach().cpu().contiguous()
        raw = tensor.reshape(-1)
        raw = raw.view(torch.uint8) if raw.numel() else raw.new_empty(0, dtype=torch.uint8)
        size = raw.numel()
        header[name] = {"dtype": NAMES[tensor.dtype], "shape": list(tensor.shape),
                        "data_offsets": [offset, offset + size]}
        offset += size
        parts.append(raw)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)))
        file.write(text)
        for raw in parts:
            file.write(raw.numpy().tobytes())


def load(path, key=None):
    """name -> tensor, or the one tensor `key`. ValueError for what is no such file."""
    types = {name: dtype for dtype, name in NAMES.items()}
    tensors = {}
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        first = file.read(8)
        length = struct.unpack("<Q", first)[0] if len(first) == 8 else 0
        if not 2 <= length <= min(size - 8, 16 << 20):
            raise ValueError("not a safetensors file")
        header = json.loads(file.read(length))
        for name, entry in header.items():
            if name == "__metadata__" or (key is not None and name != key):
                continue
            begin, end = entry["data_offsets"]
            dtype = types.get(entry["dtype"])
            if dtype is None or not 0 <= begin <= end <= size - 8 - length:
                raise ValueError(f"tensor {name}: a type or place that cannot be")
            file.seek(8 + length + begin)
            raw = bytearray(file.read(end - begin))
            tensor = torch.frombuffer(raw, dtype=torch.uint8) if raw else torch.empty(
                0, dtype=torch.uint8)
            tensors[name] = tensor.view(dtype).reshape(entry["shape"])
    if key is None:
        return tensors
    if key not in tensors:
        raise KeyError(f"no tensor {key}")
    return tensors[key]

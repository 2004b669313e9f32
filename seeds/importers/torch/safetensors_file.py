"""Writes and reads the safetensors format: 8 bytes of header length, a JSON header, the data."""

import json
import os
import struct

import torch

NAMES = {torch.float64: "F64", torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16",
         torch.int64: "I64", torch.int32: "I32", torch.int8: "I8", torch.uint8: "U8",
         torch.bool: "BOOL"}
_TYPES = {name: dtype for dtype, name in NAMES.items()}


def encode(tensors):
    """`tensors`: name -> tensor; the parts of the text, contiguous, in order."""
    header, offset, parts = {}, 0, []
    for name, tensor in tensors.items():
        tensor = tensor.detach().cpu().contiguous()
        raw = tensor.reshape(-1)
        raw = raw.view(torch.uint8) if raw.numel() else raw.new_empty(0, dtype=torch.uint8)
        size = raw.numel()
        header[name] = {"dtype": NAMES[tensor.dtype], "shape": list(tensor.shape),
                        "data_offsets": [offset, offset + size]}
        offset += size
        parts.append(memoryview(raw.numpy()))
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return [struct.pack("<Q", len(text)), text, *parts]


def save(path, tensors):
    with open(path, "wb") as file:
        for part in encode(tensors):
            file.write(part)


def _length(first, size):
    length = struct.unpack("<Q", first)[0] if len(first) == 8 else 0
    if not 2 <= length <= min(size - 8, 16 << 20):
        raise ValueError("not a safetensors file")
    return length


def _tensor(name, entry, raw):
    tensor = torch.frombuffer(raw, dtype=torch.uint8) if len(raw) else torch.empty(
        0, dtype=torch.uint8)
    return tensor.view(_TYPES[entry["dtype"]]).reshape(entry["shape"])


def _place(name, entry, bytes_of_data):
    begin, end = entry["data_offsets"]
    if entry["dtype"] not in _TYPES or not 0 <= begin <= end <= bytes_of_data:
        raise ValueError(f"tensor {name}: a type or place that cannot be")
    return begin, end


def decode(text):
    """(name -> tensor, metadata) of a bytearray, whose memory the tensors share where it is aligned
    for their type."""
    length = _length(bytes(text[:8]), len(text))
    header = json.loads(bytes(text[8:8 + length]))
    tensors, data = {}, memoryview(text)[8 + length:]
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        begin, end = _place(name, entry, len(data))
        raw = data[begin:end]
        tensors[name] = _tensor(name, entry, raw if begin % 8 == 0 else bytearray(raw))
    return tensors, header.get("__metadata__", {})


def load(path, key=None):
    """name -> tensor, or the one tensor `key`. ValueError for what is no such file."""
    tensors = {}
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        length = _length(file.read(8), size)
        header = json.loads(file.read(length))
        for name, entry in header.items():
            if name == "__metadata__" or (key is not None and name != key):
                continue
            begin, end = _place(name, entry, size - 8 - length)
            file.seek(8 + length + begin)
            tensors[name] = _tensor(name, entry, bytearray(file.read(end - begin)))
    if key is None:
        return tensors
    if key not in tensors:
        raise KeyError(f"no tensor {key}")
    return tensors[key]

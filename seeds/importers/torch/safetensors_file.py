"""Writes the safetensors format: 8 bytes of header length, a JSON header, the data."""

import json
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

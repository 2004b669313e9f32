"""Makes a model and its inputs for profile_model.py and apply_model.py.

A model is named as
  FILE.py            class Model, get_inputs(), get_init_inputs()
  PACKAGE.MODULE:CLASS   any importable nn.Module, with --init and --input
  CONFIG.json        a transformers config ("model_type"), with random weights and --tokens
"""
import importlib
import importlib.util
import json
import os

import torch

DTYPES = {"f64": torch.float64, "f32": torch.float32, "f16": torch.float16,
          "bf16": torch.bfloat16, "i64": torch.int64, "i32": torch.int32, "i8": torch.int8,
          "u8": torch.uint8, "bool": torch.bool}
NAMES = {value: key for key, value in DTYPES.items()}


class BadModel(Exception):
    """The model cannot be made; the text says why."""


def add_arguments(parser):
    parser.add_argument("model", help="FILE.py, PACKAGE.MODULE:CLASS or a transformers CONFIG.json")
    parser.add_argument("--init", default="[]", help="JSON list or object: the constructor's arguments")
    parser.add_argument("--input", action="append", default=[], metavar="SHAPE:DTYPE[:HIGH]",
                        help="one tensor of forward, as 8,512:f16 or 8,128:i64:32000 (repeat)")
    parser.add_argument("--tokens", default="1,128", metavar="BATCH,LENGTH",
                        help="of a transformers model (default 1,128)")
    parser.add_argument("--dtype", choices=["f32", "f16", "bf16"],
                        help="type of parameters and floating inputs (default: the model's own)")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--seed", type=int, default=1, help="of parameters and inputs")


class Source:
    """model: the module on its device, in evaluation mode; inputs(seed) -> arguments of forward."""

    def __init__(self, options):
        self.device, self.dtype = options.device, DTYPES.get(options.dtype)
        torch.manual_seed(options.seed)
        try:
            if options.model.endswith(".json"):
                model = self._transformers(options)
            elif options.model.endswith(".py") or os.path.exists(options.model):
                model = self._file(options)
            else:
                model = self._class(options)
        except BadModel:
            raise
        except Exception as error:
            raise BadModel(f"{options.model}: {type(error).__name__}: {error}") from error
        if self.dtype is not None:
            model = model.to(self.dtype)
        self.model = model.to(self.device).eval()

    def inputs(self, seed):
        torch.manual_seed(seed)
        return [self._place(value) for value in self._draw()]

    def call(self, inputs):
        with torch.no_grad():
            return tensors_of(self.model(*inputs))

    def _place(self, value):
        if not isinstance(value, torch.Tensor):
            return value
        if self.dtype is not None and value.is_floating_point():
            value = value.to(self.dtype)
        return value.to(self.device)

    def _file(self, options):
        spec = importlib.util.spec_from_file_location("grove_model_file", options.model)
        if spec is None or not os.path.exists(options.model):
            raise BadModel(f"{options.model}: no such Python file")
        scope = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(scope)
        self.scope = scope
        if options.input:
            self._draw = lambda: [draw(text) for text in options.input]
        else:
            self._draw = scope.get_inputs
        init = scope.get_init_inputs() if hasattr(scope, "get_init_inputs") else []
        return scope.Model(*init)

    def _class(self, options):
        module, _, name = options.model.partition(":")
        if not name:
            raise BadModel(f"{options.model}: expected FILE.py, PACKAGE.MODULE:CLASS or CONFIG.json")
        if not options.input:
            raise BadModel(f"{options.model}: say with --input what forward takes")
        self.scope = importlib.import_module(module)
        init = json.loads(options.init)
        made = getattr(self.scope, name)
        self._draw = lambda: [draw(text) for text in options.input]
        return made(**init) if isinstance(init, dict) else made(*init)

    def _transformers(self, options):
        try:
            import transformers
        except ImportError:
            raise BadModel("a transformers config needs the Python package transformers") from None
        with open(options.model, encoding="utf-8") as file:
            text = json.load(file)
        if "model_type" not in text:
            raise BadModel(f"{options.model}: a transformers config has \"model_type\"")
        config = transformers.AutoConfig.for_model(**text)
        self.scope = transformers
        batch, length = (int(part) for part in options.tokens.split(","))
        self._draw = lambda: [torch.randint(0, config.vocab_size, (batch, length))]
        return transformers.AutoModelForCausalLM.from_config(config)


def draw(text):
    parts = text.split(":")
    try:
        shape = [int(part) for part in parts[0].split(",") if part]
        dtype = DTYPES[parts[1] if len(parts) > 1 else "f32"]
        high = int(parts[2]) if len(parts) > 2 else 2
    except (ValueError, KeyError):
        raise BadModel(f"--input {text}: expected SHAPE:DTYPE[:HIGH], as 8,512:f16") from None
    if dtype.is_floating_point:
        return torch.randn(shape).to(dtype)
    return torch.randint(0, high, shape).to(dtype)


def tensors_of(result):
    """The tensors of whatever a forward returns, in order."""
    if isinstance(result, torch.Tensor):
        return [result]
    if isinstance(result, dict) or hasattr(result, "to_tuple"):
        result = result.to_tuple() if hasattr(result, "to_tuple") else list(result.values())
    if isinstance(result, (tuple, list)):
        return [tensor for part in result for tensor in tensors_of(part)]
    return []

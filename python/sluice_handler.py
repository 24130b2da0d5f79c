"""Runs a TorchServe handler of a model archive for Sluice's engine `command`.

`sluice serve` starts it as `python -m sluice_handler ABOUT`, where ABOUT is JSON: `manifest`,
`config`, `modelDir`, `gpuId` and `batchSize`. The handler is a module of the archive with a
function `handle(data, context)`, or with one class that has `initialize(context)` and
`handle(data, context)`, or that extends `BaseHandler`.

Where the package `ts` is not installed, `import ts` gives what handlers take of it: BaseHandler,
Context, PredictionException.
"""

from __future__ import annotations

import base64
import importlib
import importlib.util
import inspect
import json
import os
import sys
import time
import types
from typing import Any, Callable, Dict, List, Optional, Tuple

import sluice_predictor

Reply = Dict[str, Any]


class PredictionException(Exception):
    """Raised by a handler: the answer is this message with this status."""

    def __init__(self, message: str, error_code: int = 500):
        super().__init__(message)
        self.message = message
        self.error_code = error_code


class Metrics:
    """Writes each metric of a handler as a line of the log."""

    def add_counter(self, name: str, value: float, *_: Any, **__: Any) -> None:
        self.add_metric(name, value, "Count")

    def add_time(self, name: str, value: float, *_: Any, unit: str = "ms", **__: Any) -> None:
        self.add_metric(name, value, unit)

    def add_size(self, name: str, value: float, *_: Any, unit: str = "MB", **__: Any) -> None:
        self.add_metric(name, value, unit)

    def add_percent(self, name: str, value: float, *_: Any, **__: Any) -> None:
        self.add_metric(name, value, "Percent")

    def add_error(self, name: str, value: Any, *_: Any, **__: Any) -> None:
        self.add_metric(name, value, "")

    def add_metric(self, name: str, value: Any, unit: str = "", *_: Any, **__: Any) -> None:
        print(f"[METRICS]{name}.{unit}:{value}|{int(time.time())}", file=sys.stderr)


class Context:
    """What a handler may know of its model, of its requests, and what it may say of its replies."""

    def __init__(self, about: Dict[str, Any]):
        self.manifest = about["manifest"]
        self.model_name = self.manifest["model"]["modelName"]
        self.model_yaml_config = about["config"]
        self.metrics = Metrics()
        self.explain = False
        self.system_properties = {
            "model_dir": about["modelDir"],
            "gpu_id": about["gpuId"],
            "batch_size": about["batchSize"],
            "server_name": "Sluice",
            "server_version": "1",
            "limit_max_image_pixels": True,
        }
        self.request_ids: Dict[int, str] = {}
        self._headers: List[Dict[str, str]] = []
        self._replies: List[Reply] = []

    def begin(self, rows: List[Dict[str, Any]]) -> None:
        """Called before each batch."""
        self.request_ids = {at: row["requestId"] for at, row in enumerate(rows)}
        self._headers = [row["headers"] for row in rows]
        self._replies = [{"status": 200, "reason": "", "headers": []} for _ in rows]
        self.explain = all(each.get("explain") == "True" for each in self._headers)

    def reply(self, idx: int) -> Reply:
        """What the handler has said of one reply, apart from its body."""
        return self._replies[idx]

    def get_request_id(self, idx: int = 0) -> Optional[str]:
        return self.request_ids.get(idx)

    def get_request_header(self, idx: int, key: str) -> Optional[str]:
        """A header by its name as it was sent, else in any case."""
        headers = self._headers[idx]
        if key in headers:
            return headers[key]
        return next((v for name, v in headers.items() if name.lower() == key.lower()), None)

    def get_all_request_header(self, idx: int) -> Dict[str, str]:
        return self._headers[idx]

    def set_response_content_type(self, idx: int, value: str) -> None:
        self._replies[idx]["contentType"] = value

    def set_response_header(self, idx: int, key: str, value: str) -> None:
        if key.lower() == "content-type":
            self.set_response_content_type(idx, value)
        else:
            self._replies[idx]["headers"].append([key, str(value)])

    def set_response_status(self, code: int = 200, phrase: str = "", idx: int = 0) -> None:
        self._replies[idx].update(status=code, reason=phrase)

    def set_all_response_status(self, code: int = 200, phrase: str = "") -> None:
        for idx in range(len(self._replies)):
            self.set_response_status(code, phrase, idx)


class BaseHandler:
    """The life cycle that handlers extend: preprocess, inference, postprocess."""

    def __init__(self) -> None:
        self.model: Any = None
        self.device: Any = None
        self.context: Any = None
        self.manifest: Any = None
        self.initialized = False

    def initialize(self, context: Context) -> None:
        """Loads the archive's TorchScript, if it has one and this class's method is not replaced."""
        self.context = context
        self.manifest = context.manifest
        properties = context.system_properties
        serialized = self.manifest["model"].get("serializedFile")
        if serialized and serialized.endswith((".pt", ".pth")):
            import torch

            gpu = properties["gpu_id"]
            has_gpu = torch.cuda.is_available() and gpu is not None
            self.device = torch.device(f"cuda:{gpu}" if has_gpu else "cpu")
            path = os.path.join(properties["model_dir"], serialized)
            self.model = torch.jit.load(path, map_location=self.device)
            self.model.eval()
        self.initialized = True

    def preprocess(self, data: Any) -> Any:
        import torch

        return torch.as_tensor(data, device=self.device)

    def inference(self, data: Any, *args: Any, **kwargs: Any) -> Any:
        import torch

        with torch.inference_mode():
            return self.model(data, *args, **kwargs)

    def postprocess(self, data: Any) -> Any:
        return data.tolist()

    def handle(self, data: Any, context: Context) -> Any:
        self.context = context
        return self.postprocess(self.inference(self.preprocess(data)))


def _provide_ts() -> None:
    """Makes `import ts…` work where TorchServe is not installed."""
    if importlib.util.find_spec("ts") is not None:
        return
    contents: Dict[str, Dict[str, Any]] = {
        "ts": {},
        "ts.context": {"Context": Context},
        "ts.torch_handler": {},
        "ts.torch_handler.base_handler": {"BaseHandler": BaseHandler},
        "ts.utils": {},
        "ts.utils.util": {"PredictionException": PredictionException},
    }
    for name, values in contents.items():
        module = types.ModuleType(name)
        module.__path__ = []  # type: ignore[attr-defined]
        module.__dict__.update(values)
        sys.modules[name] = module
        parent, _, last = name.rpartition(".")
        if parent:
            setattr(sys.modules[parent], last, module)


Handle = Callable[[Any, Context], Any]


def load_handler(about: Dict[str, Any]) -> Tuple[Handle, Context]:
    """The handler of an archive, initialized."""
    directory = about["modelDir"]
    sys.path.insert(0, directory)
    _provide_ts()
    context = Context(about)
    file, _, entry = about["manifest"]["model"]["handler"].partition(":")
    name = file[:-3] if file.endswith(".py") else file
    if not os.path.exists(os.path.join(directory, *name.split("/")) + ".py"):
        raise SystemExit(f"the archive has no handler {file}; those built into TorchServe are not here")
    module = importlib.import_module(name.replace("/", "."))
    function = getattr(module, entry or "handle", None)
    if callable(function):
        function(None, context)
        return function, context
    classes = [
        each
        for _, each in inspect.getmembers(module, inspect.isclass)
        if each.__module__ == module.__name__
    ]
    if len(classes) != 1:
        raise SystemExit(f"{file} must have a function handle(data, context), or exactly one class")
    handler = classes[0]()
    if hasattr(handler, "initialize"):
        handler.initialize(context)
    return handler.handle, context


def _input_of(row: Dict[str, Any]) -> Dict[str, Any]:
    data = dict(row["input"])
    for name in row["bytes"]:
        data[name] = bytearray(base64.b64decode(data[name]))
    for name in row["json"]:
        data[name] = json.loads(data[name])
    return data


def _body_of(result: Any) -> Dict[str, str]:
    """The body of a reply: texts and bytes as they are, anything else as JSON."""
    if isinstance(result, str):
        return {"text": result}
    if isinstance(result, (bytes, bytearray)):
        return {"base64": base64.b64encode(bytes(result)).decode()}
    if hasattr(result, "tolist"):
        result = result.tolist()
    return {"text": json.dumps(result, indent=2)}


def answer(
    handle: Handle, context: Context, rows: List[Dict[str, Any]]
) -> List[Reply]:
    """A reply for each row. An exception goes to Sluice, which asks again in halves until the
    guilty row is alone: then its reply is the exception's."""
    context.begin(rows)
    try:
        results = handle([_input_of(row) for row in rows], context)
    except Exception as error:
        code = getattr(error, "error_code", None)
        if len(rows) == 1 and type(error).__name__ == "PredictionException" and code is not None:
            return [{"status": int(code), "reason": "", "error": str(error)}]
        raise
    if not isinstance(results, (list, tuple)) and not hasattr(results, "tolist"):
        return [{"status": 503, "reason": "", "error": "Invalid model predict output"}] * len(rows)
    results = list(results)
    if len(results) != len(rows):
        error = "number of batch response mismatched"
        return [{"status": 503, "reason": "", "error": error}] * len(rows)
    return [{**context.reply(at), **_body_of(result)} for at, result in enumerate(results)]


def main() -> None:
    about = json.loads(sys.argv[1])

    def load(_: sluice_predictor.Context) -> Tuple[Handle, Context]:
        return load_handler(about)

    def predict(
        items: List[sluice_predictor.Item], loaded: Tuple[Handle, Context]
    ) -> List[Reply]:
        return answer(*loaded, [item.row or {} for item in items])

    sluice_predictor.serve(predict, load, name=about["manifest"]["model"]["modelName"])


if __name__ == "__main__":
    main()

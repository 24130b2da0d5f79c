"""Answers the batches of Sluice's engine `command`, in Python.

One file, standard library only, Python 3.9 or later. Sluice puts its folder on PYTHONPATH, so
that `import sluice_predictor` works in every script that it starts::

    import sluice_predictor

    def predict(items):
        return [item.prompt.upper() for item in items]

    sluice_predictor.serve(predict)

With a model that is loaded once::

    def load(context):
        return MyModel().to(context.device)

    def predict(items, model):
        return model([item.prompt for item in items])

    sluice_predictor.serve(predict, load)

Sluice's `docs/engine-command.md` describes the lines of the protocol, for other languages.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from dataclasses import dataclass, field
from typing import Any, BinaryIO, Callable, Dict, Iterable, List, Optional, Sequence, TypeVar
from typing import Union, overload

__all__ = ["Answer", "Context", "Item", "Unanswered", "Unsupported", "serve"]

PROTOCOL = 1
"""Version of the lines that this module reads and writes."""

Model = TypeVar("Model")


@dataclass(frozen=True)
class Context:
    """The context in which a program runs."""

    device: str = "cpu"
    """What to compute on, as PyTorch calls it: `cuda:0`, the first GPU that this process sees,
    where `model.devices` of the job gives it one; else `cpu`."""
    replica: int = 0
    """Number of this process among those of its worker, from 0."""


@dataclass(frozen=True)
class Item:
    """One request of a batch: either `prompt` or `messages` is set, or neither in a job without
    prompts, which has only the row."""

    index: int
    """Index of the row in the input."""
    prompt: Optional[str] = None
    messages: Optional[List[Dict[str, str]]] = None
    """A conversation: dictionaries with `role` (system, user, assistant) and `content`."""
    row: Optional[Dict[str, Any]] = None
    """The whole row of the input."""
    parameters: Dict[str, Any] = field(default_factory=dict)
    """How to generate: `max_new_tokens`, `temperature`, `top_p`, `seed` and so on."""
    prompt_name: str = ""
    """Which of the job's prompts it is."""
    element: Optional[int] = None
    """Place in the list of a `forEach` prompt, from 0."""
    schema: Optional[Dict[str, Any]] = None
    """JSON Schema that the answer has to fit, where the job has one."""

    @property
    def text(self) -> str:
        """The prompt, or the joined contents of the messages."""
        if self.prompt is not None:
            return self.prompt
        return "\n".join(message["content"] for message in self.messages or [])


@dataclass(frozen=True)
class Answer:
    """A text with its facts. If only the text is known, return the `str`."""

    text: str
    tokens: Optional[int] = None
    """Tokens of the answer."""
    prompt_tokens: Optional[int] = None
    """Tokens of the prompt."""
    finish_reason: str = "stop"
    """`stop`, or `length` where the limit of tokens cut it."""


class Unanswered(Exception):
    """Return it instead of an answer, or raise it: the reason why this item has none.

    `code` may be `PROMPT_TOO_LONG`, a reason with a name in Sluice.
    """

    def __init__(self, message: str, code: Optional[str] = None):
        super().__init__(message)
        self.code = code


class Unsupported(Exception):
    """Raise it if the job needs something that this program cannot do: it stops the run."""


Result = Union[Answer, Sequence[Answer], Exception, Any]
"""An `Answer` or `str`; a list of `Answer` where `num_return_sequences` asks for several; an
exception, for an item that cannot be answered; or any other value that JSON can hold."""


@overload
def serve(
    predict: Callable[[List[Item]], Sequence[Result]],
    *,
    name: Optional[str] = None,
    max_batch_rows: Optional[int] = None,
) -> None: ...


@overload
def serve(
    predict: Callable[[List[Item], Model], Sequence[Result]],
    load: Callable[[Context], Model],
    *,
    name: Optional[str] = None,
    max_batch_rows: Optional[int] = None,
) -> None: ...


def serve(predict, load=None, *, name=None, max_batch_rows=None):  # type: ignore[no-untyped-def]
    """Answers batches until Sluice closes stdin.

    predict: gets the items of a batch, and the result of `load` if there is one. It returns one
        result for each item, in order. A raised error concerns the whole batch: Sluice sends the
        items again in smaller batches, until the guilty one is alone.
    load: called once, before the first batch.
    name: the program's name in the log.
    max_batch_rows: the most items that it takes at once; Sluice never sends more.

    From here on `print` writes to stderr, which Sluice logs: stdout is for answers.
    """
    requests, replies = _take_stdio()
    has_gpu = os.environ.get("SLUICE_DEVICE", "").startswith("cuda:")
    context = Context(
        device="cuda:0" if has_gpu else "cpu",
        replica=int(os.environ.get("SLUICE_REPLICA", "0")),
    )
    model = load(context) if load is not None else None
    ready = {"name": name, "device": context.device, "maxBatchRows": max_batch_rows}
    told = {key: value for key, value in ready.items() if value is not None}
    _send(replies, {"ready": PROTOCOL, **told})
    for line in requests:
        if not line.strip():
            continue
        request = json.loads(line)
        items = [_item_of(each, request.get("parameters", {})) for each in request["items"]]
        call = (lambda: predict(items)) if load is None else (lambda: predict(items, model))
        answer = _answer(call)
        _end_without_gpu()
        _send(replies, {"batch": request["batch"], **answer})


def _take_stdio() -> "tuple[BinaryIO, BinaryIO]":
    """Stdin and stdout on separate descriptors. From now on, everything written to stdout, also by
    libraries in C, goes to stderr, and started programs get an empty stdin."""
    requests, replies = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    sys.stdout.flush()
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    empty = os.open(os.devnull, os.O_RDONLY)
    os.dup2(empty, 0)
    os.close(empty)
    return requests, replies


def _send(replies: BinaryIO, message: Dict[str, Any]) -> None:
    try:
        replies.write(json.dumps(message, default=_plain, allow_nan=False).encode() + b"\n")
        replies.flush()
    except BrokenPipeError:
        # The reader is gone; a normal exit would try to flush once more and fail.
        os._exit(0)


def _item_of(item: Dict[str, Any], parameters: Dict[str, Any]) -> Item:
    return Item(
        index=item["index"],
        prompt=item.get("prompt"),
        messages=item.get("messages"),
        row=item.get("row"),
        parameters={**parameters, **item.get("parameters", {})},
        prompt_name=item.get("promptName", ""),
        element=item.get("element"),
        schema=item.get("schema"),
    )


def _answer(call: Callable[[], Sequence[Result]]) -> Dict[str, Any]:
    """The results of a batch, or the error of the whole batch."""
    try:
        return {"results": [_result_of(result) for result in _list_of(call())]}
    except Exception as error:  # noqa: BLE001 - everything that the user's code raises is reported
        if not isinstance(error, (Unanswered, Unsupported)):
            traceback.print_exc()
        reported = _error_of(error)
    if reported.get("code") == "OUT_OF_MEMORY":
        # Only now is the exception gone, whose frames held the tensors that did not fit.
        _empty_caches()
    return {"error": reported}


def _list_of(results: Any) -> Iterable[Result]:
    """Refuses values that can also be iterated, but as characters, as keys or in any order."""
    if isinstance(results, Iterable) and not isinstance(results, (str, bytes, dict, set)):
        return results
    raise TypeError(f"predict gave a {type(results).__name__}, and not a list of results")


def _result_of(result: Result) -> Dict[str, Any]:
    if isinstance(result, str):
        return {"text": result}
    if isinstance(result, Answer):
        return _record_of(result)
    if isinstance(result, BaseException):
        return {"error": _error_of(result)}
    if isinstance(result, list) and result and all(isinstance(each, Answer) for each in result):
        return {"answers": [_record_of(each) for each in result]}
    try:
        return {"value": json.loads(json.dumps(result, default=_plain, allow_nan=False))}
    except (TypeError, ValueError) as error:
        return {"error": {"message": f"the result is no JSON: {error}"}}


def _record_of(answer: Answer) -> Dict[str, Any]:
    record = {
        "text": answer.text,
        "completionTokens": answer.tokens,
        "promptTokens": answer.prompt_tokens,
        "finishReason": answer.finish_reason,
    }
    return {key: value for key, value in record.items() if value is not None}


def _plain(value: Any) -> Any:
    """Arrays and tensors as lists, their scalars as numbers."""
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} cannot be written as JSON")


def _error_of(error: BaseException) -> Dict[str, str]:
    message = str(error)
    if isinstance(error, Unsupported):
        return {"message": message, "code": "UNSUPPORTED"}
    if isinstance(error, Unanswered):
        return {"message": message, **({"code": error.code} if error.code else {})}
    named = f"{type(error).__name__}: {message}" if message else type(error).__name__
    if _is_out_of_memory(error):
        return {"message": named, "code": "OUT_OF_MEMORY"}
    return {"message": named}


def _is_out_of_memory(error: BaseException) -> bool:
    """True for errors of Python, PyTorch and GPU libraries when memory is full."""
    names = [each.__name__ for each in type(error).__mro__]
    if "MemoryError" in names or "OutOfMemoryError" in names:
        return True
    text = str(error).lower()
    signs = ["out of memory", "can't allocate memory", "alloc_failed", "resource_exhausted"]
    return any(sign in text for sign in signs)


def _end_without_gpu() -> None:
    """Ends this process if its GPU computes nothing any more, as after a failed assertion in a
    kernel: each later batch would fail as well, whatever is in it. Sluice starts it again, and
    sends the items of the batch again."""
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_initialized():
        return
    try:
        torch.cuda.synchronize()
    except Exception as error:  # noqa: BLE001 - its class differs among versions
        if _is_out_of_memory(error):
            return
        reason = str(error).partition("\n")[0]
        print(f"the GPU computes nothing any more: {reason}", file=sys.stderr, flush=True)
        os._exit(1)


def _empty_caches() -> None:
    torch = sys.modules.get("torch")
    if torch is None:
        return
    import gc

    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
    elif hasattr(torch, "mps") and torch.backends.mps.is_available():
        torch.mps.empty_cache()

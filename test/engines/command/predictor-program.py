"""Answers by `sluice_predictor` as words in the prompts say; see `sluice-predictor.test.ts`."""

import os
import subprocess
import sys
import types

from sluice_predictor import Answer, Context, Item, Unanswered, Unsupported, serve


class Cuda:
    """The calls of `torch.cuda` on a GPU that a kernel has stopped: each one fails from then on."""

    @staticmethod
    def is_initialized():
        return True

    @staticmethod
    def synchronize():
        raise RuntimeError("CUDA error: device-side assert triggered\nmore of it")


class Vector:
    """As arrays and tensors have it."""

    def tolist(self):
        return [0.5, 1.5]


def load(context: Context) -> str:
    print("loading")
    return f"{context.device} {context.replica}"


def result_of(item: Item, model: str):
    if "WHERE" in item.text:
        return model
    if "ITEM" in item.text:
        return {
            "index": item.index,
            "name": item.prompt_name,
            "row": item.row,
            "seed": item.parameters["seed"],
            "limit": item.parameters["max_new_tokens"],
        }
    if "VECTOR" in item.text:
        return {"vector": Vector()}
    if "NAN" in item.text:
        return float("nan")
    if "LONG" in item.text:
        return Unanswered("9 tokens of 8", code="PROMPT_TOO_LONG")
    if "TWICE" in item.text:
        return [Answer("one", tokens=1, prompt_tokens=4), Answer("two", tokens=1)]
    return Answer(item.text.upper(), tokens=3, prompt_tokens=2, finish_reason="length")


def predict(items, model):
    texts = " ".join(item.text for item in items)
    if "PRINT" in texts:
        print('{"batch": 0, "results": []}')
        os.write(1, b"from a library in C\n")
        # A child must not take the next batches from our stdin.
        assert subprocess.run(["cat"], stdout=subprocess.PIPE, check=True).stdout == b""
    if "RAISE" in texts:
        raise KeyError("no such word")
    if "MEMORY" in texts and len(items) > 2:
        raise RuntimeError("CUDA error: out of memory")
    if "ASSERT" in texts:
        sys.modules["torch"] = types.SimpleNamespace(cuda=Cuda)
        raise RuntimeError("CUDA error: device-side assert triggered")
    if "NEVER" in texts:
        raise Unsupported("this program has no beams")
    if "SIZE" in texts:
        return [len(items)] * len(items)
    if "TEXT" in texts:
        return "x" * len(items)
    if "DICTIONARY" in texts:
        return {item.index: "x" for item in items}
    results = [result_of(item, model) for item in items]
    return results[:-1] if "FEW" in texts else results


serve(predict, load, name="tried", max_batch_rows=int(sys.argv[1]))

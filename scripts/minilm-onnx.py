"""
Turns the folder of a small BERT for sentences, as sentence-transformers writes it, into one that
engine `transformers` reads: minilm-onnx.py SOURCE TARGET

The graph is written node by node from the weights, so that no PyTorch is needed.
"""

import json
import math
import shutil
import sys
from pathlib import Path

import numpy
import onnx
from onnx import TensorProto, helper, numpy_helper

source, target = Path(sys.argv[1]), Path(sys.argv[2])
config = json.loads((source / "config.json").read_text())
width, heads = config["hidden_size"], config["num_attention_heads"]
eps = config["layer_norm_eps"]


def read_safetensors(path: Path) -> dict[str, numpy.ndarray]:
    data = path.read_bytes()
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + size])
    header.pop("__metadata__", None)
    arrays = {}
    for name, entry in header.items():
        if entry["dtype"] != "F32":
            continue
        start, end = (8 + size + offset for offset in entry["data_offsets"])
        arrays[name] = numpy.frombuffer(data[start:end], "<f4").reshape(entry["shape"])
    return arrays


weights = read_safetensors(source / "model.safetensors")
nodes, initializers = [], []


def constant(name: str, value: numpy.ndarray) -> str:
    initializers.append(numpy_helper.from_array(numpy.asarray(value, order="C"), name))
    return name


def weight(name: str) -> str:
    return constant(name, weights[name])


def node(operation: str, *inputs: str, **attributes) -> str:
    output = f"{operation}_{len(nodes)}"
    nodes.append(helper.make_node(operation, list(inputs), [output], **attributes))
    return output


def dense(values: str, name: str) -> str:
    kernel = constant(f"{name}.kernel", weights[f"{name}.weight"].T)
    return node("Add", node("MatMul", values, kernel), weight(f"{name}.bias"))


def normed(values: str, name: str) -> str:
    return node(
        "LayerNormalization", values, weight(f"{name}.weight"), weight(f"{name}.bias"), epsilon=eps
    )


one = constant("one", numpy.float32(1))
half = constant("half", numpy.float32(0.5))
root_two = constant("root_two", numpy.float32(math.sqrt(2)))
# The heads beside each other, and one after another.
split = constant("split", numpy.array([0, 0, heads, width // heads], numpy.int64))
joined = constant("joined", numpy.array([0, 0, width], numpy.int64))
scale = constant("scale", numpy.float32(1 / math.sqrt(width // heads)))


def attention(values: str, mask: str, name: str) -> str:
    def part(which: str, order: list[int]) -> str:
        of = dense(values, f"{name}.self.{which}")
        return node("Transpose", node("Reshape", of, split), perm=order)

    query, keys = part("query", [0, 2, 1, 3]), part("key", [0, 2, 3, 1])
    scores = node("Add", node("Mul", node("MatMul", query, keys), scale), mask)
    context = node("MatMul", node("Softmax", scores, axis=-1), part("value", [0, 2, 1, 3]))
    merged = node("Reshape", node("Transpose", context, perm=[0, 2, 1, 3]), joined)
    return normed(
        node("Add", dense(merged, f"{name}.output.dense"), values), f"{name}.output.LayerNorm"
    )


def gelu(values: str) -> str:
    erf = node("Erf", node("Div", values, root_two))
    return node("Mul", node("Mul", values, node("Add", erf, one)), half)


def layer(values: str, mask: str, name: str) -> str:
    attended = attention(values, mask, f"{name}.attention")
    inner = gelu(dense(attended, f"{name}.intermediate.dense"))
    return normed(
        node("Add", dense(inner, f"{name}.output.dense"), attended), f"{name}.output.LayerNorm"
    )


def embeddings() -> str:
    length = node("Gather", node("Shape", "input_ids"), constant("second", numpy.int64(1)))
    zero, step = constant("zero", numpy.int64(0)), constant("step", numpy.int64(1))
    words = node("Gather", weight("embeddings.word_embeddings.weight"), "input_ids")
    positions = node(
        "Gather",
        weight("embeddings.position_embeddings.weight"),
        node("Range", zero, length, step),
    )
    kinds = node("Gather", weight("embeddings.token_type_embeddings.weight"), "token_type_ids")
    return normed(node("Add", node("Add", words, kinds), positions), "embeddings.LayerNorm")


def mask_scores() -> str:
    axes = constant("axes", numpy.array([1, 2], numpy.int64))
    counted = node("Cast", node("Unsqueeze", "attention_mask", axes), to=TensorProto.FLOAT)
    lowest = constant("lowest", numpy.float32(numpy.finfo(numpy.float32).min))
    return node("Mul", node("Sub", one, counted), lowest)


states, mask = embeddings(), mask_scores()
for at in range(config["num_hidden_layers"]):
    states = layer(states, mask, f"encoder.layer.{at}")
nodes.append(helper.make_node("Identity", [states], ["last_hidden_state"]))


def value_info(name: str, kind: int, shape: list) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, shape)


rows = ["batch_size", "sequence_length"]
names = ["input_ids", "attention_mask", "token_type_ids"]
graph = helper.make_graph(
    nodes,
    "sentence-bert",
    [value_info(name, TensorProto.INT64, rows) for name in names],
    [value_info("last_hidden_state", TensorProto.FLOAT, [*rows, width])],
    initializers,
)
model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
onnx.checker.check_model(model)
(target / "onnx").mkdir(parents=True, exist_ok=True)
onnx.save(model, str(target / "onnx" / "model.onnx"))
for name in ["config.json", "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json"]:
    if (source / name).exists():
        shutil.copy(source / name, target / name)

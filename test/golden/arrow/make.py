"""Makes the Arrow files of this folder, most of them of the rows of the Parquet files beside it.

Run by hand: pip install pyarrow; python make.py
"""

import decimal
import json
import os

import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.ipc as ipc
import pyarrow.parquet as pq

here = os.path.dirname(os.path.abspath(__file__))


def path(name):
    return os.path.join(here, name)


def write(name, table, rows=None, **options):
    """Files end in .arrow, streams in .arrows; with so many rows a batch."""
    make = ipc.new_stream if name.endswith(".arrows") else ipc.new_file
    with open(path(name), "wb") as out:
        with make(out, table.schema, options=ipc.IpcWriteOptions(**options)) as writer:
            writer.write_table(table, max_chunksize=rows)


def odd_table():
    """Types that Parquet has not, and layouts that are Arrow's own."""
    D = decimal.Decimal
    key = pa.dictionary(pa.int8(), pa.string())
    columns = [
        ("large text", pa.large_string(), ["a", None, "é" * 30], None),
        ("large bytes", pa.large_binary(), [b"a", None, b""], ["YQ==", None, ""]),
        ("text view", pa.string_view(), ["a", None, "é" * 30], None),
        ("byte view", pa.binary_view(), [b"a" * 15, None, b"a"], ["YWFhYWFhYWFhYWFhYWFh", None, "YQ=="]),
        ("large list", pa.large_list(pa.int32()), [[1], None, [2, None]], None),
        ("fixed list", pa.list_(pa.int64(), 2), [[1, 2], None, [2, None]], None),
        ("list view", pa.list_view(pa.string()), [["a"], None, ["b", None]], None),
        ("large list view", pa.large_list_view(pa.int8()), [[1], None, []], None),
        ("day", pa.date64(), [86400000, None, -86400000], ["1970-01-02", None, "1969-12-31"]),
        ("seconds", pa.time32("s"), [1, None, 86399], ["00:00:01.000", None, "23:59:59.000"]),
        ("millis", pa.time32("ms"), [1, None, 2], ["00:00:00.001", None, "00:00:00.002"]),
        ("at", pa.timestamp("s"), [1, None, -3], ["1970-01-01T00:00:01.000", None, "1969-12-31T23:59:57.000"]),
        ("zoned", pa.timestamp("s", "UTC"), [1, None, 0], ["1970-01-01T00:00:01.000Z", None, "1970-01-01T00:00:00.000Z"]),
        ("lasting", pa.duration("ms"), [1, None, -3], None),
        ("decimal32", pa.decimal32(5, 2), [D("1.25"), None, D("-1.50")], [1.25, None, -1.5]),
        ("decimal64", pa.decimal64(15, 2), [D("1.25"), None, D("-1.50")], [1.25, None, -1.5]),
        ("decimal256", pa.decimal256(50, 2), [D("1" * 40 + ".25"), None, D("-0.01")], ["1" * 40 + ".25", None, "-0.01"]),
        ("keys", pa.list_(key), [["x", "y"], None, ["x", None]], None),
        ("keyed", pa.struct([("k", key)]), [{"k": "x"}, None, {"k": None}], None),
        ("__proto__", pa.struct([("__proto__", pa.int8())]), [{"__proto__": 1}, None, {"__proto__": 2}], None),
        ("json", pa.json_(), ['{"a": 1}', None, "[]"], [{"a": 1}, None, []]),
    ]
    arrays = {name: pa.array(values, kind) for name, kind, values, _ in columns}
    rows = {name: values if texts is None else texts for name, _, values, texts in columns}
    arrays["runs"] = pa.RunEndEncodedArray.from_arrays(pa.array([2, 3], pa.int32()), pa.array(["u", None]))
    rows["runs"] = ["u", "u", None]
    with open(path("odd.jsonl"), "w", encoding="utf-8") as out:
        for at in range(3):
            row = {name: values[at] for name, values in rows.items()}
            out.write(json.dumps(row, ensure_ascii=False) + "\n")
    return pa.table(arrays)


def write_dictionaries(name, has_deltas):
    """Four batches, each with a dictionary of its own, or with more entries of one."""
    schema = pa.schema([("d", pa.dictionary(pa.int32(), pa.string())), ("n", pa.int32())])
    options = ipc.IpcWriteOptions(emit_dictionary_deltas=has_deltas)
    make = ipc.new_stream if name.endswith(".arrows") else ipc.new_file
    with open(path(name), "wb") as out, make(out, schema, options=options) as writer:
        for n in range(4):
            entries = [f"v{at}" for at in range(n + 1)] if has_deltas else [f"b{n}-0", f"b{n}-1"]
            keys = pa.array([0, n if has_deltas else 1, None], pa.int32())
            column = pa.DictionaryArray.from_arrays(keys, pa.array(entries))
            writer.write_batch(pa.record_batch([column, pa.array([n] * 3, pa.int32())], schema=schema))


def main():
    parquet = os.path.join(here, "..", "parquet")
    types = pq.read_table(os.path.join(parquet, "pyarrow-types.parquet"))
    chats = pq.read_table(os.path.join(parquet, "pyarrow-none.parquet")).combine_chunks()
    write("types.arrow", types)
    write("types.arrows", types, rows=1)
    write("types-zstd.arrow", types, compression="zstd")
    write("chats-lz4.arrow", chats, rows=64, compression="lz4")
    write("chats-zstd.arrows", chats, rows=64, compression="zstd")
    feather.write_feather(chats, path("chats.feather"))
    odd = odd_table()
    write("odd.arrow", odd)
    write("odd-lz4.arrows", odd, rows=1, compression="lz4")
    write_dictionaries("deltas.arrow", True)
    write_dictionaries("deltas.arrows", True)
    write_dictionaries("replaced.arrows", False)
    union = pa.UnionArray.from_sparse(pa.array([0, 1], pa.int8()), [pa.array([1, 2]), pa.array(["a", "b"])])
    write("union.arrow", pa.table({"a": [1, 2], "u": union}))


main()

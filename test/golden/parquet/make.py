"""Makes the Parquet files of this folder, and beside each the rows that it holds as JSON Lines.

Run by hand: pip install pyarrow pandas duckdb; python make.py
"""

import base64
import datetime as dt
import decimal
import json
import os
import uuid

import duckdb
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

here = os.path.dirname(os.path.abspath(__file__))


def path(name):
    return os.path.join(here, name)


def plain(value, kind):
    """A value as Sluice's documentation says that it stands in JSON."""
    if value is None:
        return None
    if pa.types.is_dictionary(kind):
        return plain(value, kind.value_type)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return [plain(each, kind.value_type) for each in value]
    if pa.types.is_struct(kind):
        return {field.name: plain(value[field.name], field.type) for field in kind}
    if pa.types.is_map(kind):
        pairs = [(plain(k, kind.key_type), plain(v, kind.item_type)) for k, v in value]
        if pa.types.is_string(kind.key_type):
            return dict(pairs)
        return [{"key": k, "value": v} for k, v in pairs]
    if pa.types.is_decimal(kind):
        return float(value) if kind.precision <= 15 else format(value, "f")
    if pa.types.is_floating(kind):
        return float(value)
    if isinstance(value, uuid.UUID):
        return str(value)
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    return value


def moments(column, kind):
    """Times by pyarrow's own integers: Python's have no nanoseconds."""
    digits = {"s": 3, "ms": 3, "us": 6, "ns": 9}
    if pa.types.is_date(kind):
        return [None if each is None else each.isoformat() for each in column.to_pylist()]
    per_second = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[kind.unit]
    width = pa.int32() if kind.bit_width == 32 else pa.int64()
    texts = []
    for since in column.cast(width).to_pylist():
        if since is None:
            texts.append(None)
            continue
        seconds, rest = divmod(since, per_second)
        if kind.unit == "s":
            rest = 0
        fraction = str(rest).rjust(digits[kind.unit], "0")
        at = dt.datetime(1970, 1, 1) + dt.timedelta(seconds=seconds)
        if pa.types.is_time(kind):
            texts.append(f"{at:%H:%M:%S}.{fraction}")
        else:
            texts.append(f"{at:%Y-%m-%dT%H:%M:%S}.{fraction}" + ("Z" if kind.tz else ""))
    return texts


def is_moment(kind):
    return pa.types.is_temporal(kind)


def write_rows(name, table):
    columns = {}
    for field in table.schema:
        column = table.column(field.name).combine_chunks()
        if is_moment(field.type):
            columns[field.name] = moments(column, field.type)
        else:
            values = column.to_pylist()
            columns[field.name] = [plain(value, field.type) for value in values]
    with open(path(name + ".jsonl"), "w", encoding="utf-8", newline="\n") as out:
        for at in range(table.num_rows):
            row = {key: values[at] for key, values in columns.items()}
            text = json.dumps(row, ensure_ascii=False, separators=(",", ":"))
            # NaN and infinities as `specialText` of src/foundation/exact-json.ts has them.
            for value, special in (("NaN", "9e+00999"), ("-Infinity", "-1e+00999"), ("Infinity", "1e+00999")):
                text = text.replace(":" + value, ":" + special)
            out.write(text + "\n")


def types_table():
    utc = dt.timezone.utc
    at = dt.datetime(2024, 2, 29, 13, 5, 0, 250000)
    old = dt.datetime(1901, 1, 1, 0, 0, 0, 1)
    D = decimal.Decimal
    point = pa.struct([("x", pa.int64()), ("tags", pa.list_(pa.string()))])
    columns = [
        ("id", pa.int64(), [1, 9007199254740993, -(2**63)], False),
        ("small", pa.int8(), [-128, None, 127], True),
        ("medium", pa.int16(), [-32768, None, 32767], True),
        ("whole", pa.int32(), [-(2**31), None, 2**31 - 1], True),
        ("unsigned8", pa.uint8(), [0, 255, None], True),
        ("unsigned32", pa.uint32(), [0, 2**32 - 1, None], True),
        ("unsigned64", pa.uint64(), [0, 2**64 - 1, None], True),
        ("yes", pa.bool_(), [True, False, None], True),
        ("half", pa.float16(), [1.5, None, -0.25], True),
        ("single", pa.float32(), [0.1, None, 3.0], True),
        ("double", pa.float64(), [1e300, float("nan"), 1e20], True),
        ("text", pa.string(), ["Grüße 🎉", "", "tab\tquote\"\nline\u0000end"], False),
        ("category", pa.dictionary(pa.int32(), pa.string()), ["a", "b", "a"], True),
        ("bytes", pa.binary(), [b"\x00\xff", b"", None], True),
        ("fixed", pa.binary(4), [b"abcd", None, b"\x01\x02\x03\x04"], True),
        ("price", pa.decimal128(9, 2), [D("12.50"), None, D("-0.01")], True),
        ("exact", pa.decimal128(38, 10), [D("1234567890123456789012345678.0123456789"), None, D("-1e-10")], True),
        ("day", pa.date32(), [dt.date(2024, 2, 29), None, dt.date(1600, 1, 1)], True),
        ("clock", pa.time64("us"), [dt.time(13, 5, 0, 1), None, dt.time(0)], True),
        ("millis", pa.timestamp("ms", "UTC"), [at.replace(tzinfo=utc), None, dt.datetime(1969, 12, 31, 23, 59, 59, 999000, utc)], True),
        ("micros", pa.timestamp("us"), [at, None, old], True),
        ("nanos", pa.timestamp("ns", "Europe/Berlin"), [at.replace(tzinfo=utc), None, dt.datetime(1970, 1, 1, tzinfo=utc)], True),
        ("none", pa.null(), [None, None, None], True),
        ("list", pa.list_(pa.int64()), [[1, None, 9007199254740993], [], None], True),
        ("lists", pa.list_(pa.list_(pa.string())), [[["a"], [], None], None, [["b", None]]], True),
        ("point", point, [{"x": 1, "tags": ["p"]}, None, {"x": None, "tags": None}], True),
        ("points", pa.list_(point), [[{"x": 1, "tags": []}, None], [], [{"x": 2, "tags": ["q", None]}]], True),
        ("scores", pa.map_(pa.string(), pa.float64()), [[("a", 0.5), ("b", None)], [], None], True),
        ("names", pa.map_(pa.int32(), pa.string()), [[(1, "one")], None, []], True),
    ]
    schema = pa.schema([pa.field(name, kind, nullable) for name, kind, _, nullable in columns])
    arrays = []
    for name, kind, values, _ in columns:
        if pa.types.is_dictionary(kind):
            arrays.append(pa.array(values).dictionary_encode().cast(kind))
        else:
            arrays.append(pa.array(values, kind))
    return pa.table(arrays, schema=schema)


def chat_table(rows):
    """Rows whose lists are longer than a small page."""
    conversations = [
        [{"role": "user" if turn % 2 == 0 else "assistant", "content": f"turn {turn} of {row}"} for turn in range(row % 7)]
        for row in range(rows)
    ]
    return pa.table({
        "id": pa.array(range(rows), pa.int64()),
        "conversation": conversations,
        "scores": [[row / 4] * (row % 3) if row % 5 else None for row in range(rows)],
        "language": [["English", "German", None][row % 3] for row in range(rows)],
    })


def main():
    types = types_table()
    pq.write_table(types, path("pyarrow-types.parquet"))
    write_rows("pyarrow-types", types)

    chats = chat_table(200)
    small = {"row_group_size": 64, "data_page_size": 256, "write_batch_size": 8}
    for name, options in {
        "pyarrow-v1-zstd": {"compression": "zstd", "data_page_version": "1.0", "write_page_checksum": True, "use_dictionary": False},
        "pyarrow-v2-gzip": {"compression": "gzip", "data_page_version": "2.0", "write_page_index": True},
        "pyarrow-brotli": {"compression": "brotli"},
        "pyarrow-lz4": {"compression": "lz4"},
        "pyarrow-none": {"compression": "none", "column_encoding": {"id": "DELTA_BINARY_PACKED", "language": "DELTA_BYTE_ARRAY"}, "use_dictionary": False},
    }.items():
        pq.write_table(chats, path(name + ".parquet"), **small, **options)
    write_rows("chats", chats)

    frame = pd.DataFrame({"n": [1, None, 3], "s": ["x", None, "z"], "at": pd.to_datetime(["2024-01-01", None, "2024-01-03"]), "c": pd.Categorical(["u", "v", "u"])}, index=["a", "b", "c"])
    frame.to_parquet(path("pandas.parquet"))
    write_rows("pandas", pq.read_table(path("pandas.parquet")))

    query = """
      SELECT i AS id, 'row ' || i AS text, [i, NULL] AS list, {'a': i, 'b': {'c': 'x' || i}} AS struct,
        MAP {'k': i} AS map, (i / 4)::DECIMAL(12, 3) AS price, DATE '2024-02-28' + i::INTEGER AS day,
        TIMESTAMP '2024-02-29 00:00:00.000001' + INTERVAL (i) HOUR AS at,
        TIMESTAMPTZ '2024-02-29 00:00:00+00' + INTERVAL (i) DAY AS zoned,
        ('00000000-0000-4000-8000-00000000000' || i)::UUID AS name
      FROM range(5) t(i)
    """
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    connection.execute(f"COPY ({query}) TO '{path('duckdb.parquet')}' (FORMAT parquet, COMPRESSION zstd)")
    write_rows("duckdb", pq.read_table(path("duckdb.parquet")))
    # pyarrow does not read intervals: their rows are written by hand.
    query = """
      SELECT * FROM (VALUES
        (1, INTERVAL '1 year 2 months 3 days 4 hours 5 minutes 6.789 seconds', [INTERVAL 3 DAY]),
        (2, NULL, [INTERVAL 0 DAY, NULL])) t(id, took, waits)
    """
    connection.execute(f"COPY ({query}) TO '{path('duckdb-interval.parquet')}' (FORMAT parquet)")


main()

"""Makes the files of this folder, as other tools write them. Run by hand:

    pip install pandas duckdb && python test/golden/formats/make.py

The programs `gzip` and `zstd` must be there. `rows.json` says what all of them hold.
"""

import csv
import json
import subprocess
from pathlib import Path

import duckdb
import pandas

here = Path(__file__).parent
rows = [
    {"id": 1, "text": "plain", "note": "a"},
    {"id": 2, "text": 'with "quotes", commas\nand lines', "note": "Größe 😀"},
    {"id": 3, "text": "carriage\r\nreturn and\ttab", "note": "  spaces  "},
    {"id": 9007199254740993, "text": "007", "note": "'single'"},
]
frame = pandas.DataFrame(rows)


def main() -> None:
    (here / "rows.json").write_text(json.dumps(rows, ensure_ascii=False, indent=1) + "\n")
    frame.to_csv(here / "pandas.csv", index=False)
    frame.to_csv(here / "pandas-index.csv", quoting=csv.QUOTE_ALL, lineterminator="\r\n")
    frame.to_csv(here / "pandas.tsv", index=False, sep="\t", encoding="utf-8-sig")
    frame.to_csv(here / "pandas.csv.gz", index=False)
    frame.to_json(here / "pandas.jsonl", orient="records", lines=True)
    frame.to_json(here / "pandas.json", orient="records", indent=2)
    with open(here / "python.csv", "w", newline="") as file:
        writer = csv.DictWriter(file, ["id", "text", "note"])
        writer.writeheader()
        writer.writerows(rows)
    connection = duckdb.connect()
    connection.register("rows", frame)
    connection.execute(f"COPY rows TO '{here}/duckdb.csv' (HEADER)")
    connection.execute(f"COPY rows TO '{here}/duckdb.json'")
    connection.execute(f"COPY rows TO '{here}/duckdb-array.json' (FORMAT json, ARRAY true)")
    compress()


def compress() -> None:
    """Files of several gzip members and zstd frames as well, as programs append them."""
    lines = (here / "pandas.jsonl").read_bytes().splitlines(keepends=True)
    for name, command in {"gz": ["gzip", "-nc"], "zst": ["zstd", "-qc"]}.items():
        parts = [b"".join(lines[:2]), b"".join(lines[2:])]
        packed = b"".join(
            subprocess.run(command, input=part, capture_output=True, check=True).stdout
            for part in parts
        )
        (here / f"appended.jsonl.{name}").write_bytes(packed)


main()

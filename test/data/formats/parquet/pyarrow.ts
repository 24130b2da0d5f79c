import { execFileSync } from "node:child_process";

/** Compares, by pyarrow, what files were and what they became, in pairs. */
const comparison = `
import sys, pyarrow.parquet as pq
files = iter(sys.argv[1:])
for before, after in zip(files, files):
    before, after = pq.read_table(before), pq.read_table(after)
    for field in before.schema:
        kept = after.schema.field(field.name)
        types = (str(field.type), str(kept.type), field.nullable, kept.nullable)
        old, new = (table.column(field.name) for table in (before, after))
        # What Arrow alone keeps, in metadata of its own: dictionaries, names of zones, large types.
        if "dictionary" in types[0] or "large" in types[0]: old = old.cast(kept.type)
        elif "tz=" in types[0]: old = old.cast(kept.type)
        elif types[0] != types[1]: print("type", field.name, types)
        if field.nullable != kept.nullable: print("nullable", field.name, types)
        values = [None if isinstance(v, float) and v != v else v for v in old.to_pylist()]
        others = [None if isinstance(v, float) and v != v else v for v in new.to_pylist()]
        if values != others: print("values", field.name, values, others)
`;

/** A Python that has pyarrow, if `PYTHON` names one or the system's is one. */
export function pyarrowPython(): string | undefined {
  const command = process.env.PYTHON ?? "python3";
  try {
    execFileSync(command, ["-c", "import pyarrow.parquet"], { stdio: "ignore" });
    return command;
  } catch {
    return undefined;
  }
}

/** What pyarrow finds other in files that were made of others: pairs; empty = nothing. */
export function differences(python: string, ...files: string[]): string {
  return execFileSync(python, ["-c", comparison, ...files], { encoding: "utf8" });
}

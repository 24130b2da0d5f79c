import { execFileSync } from "node:child_process";

/** A Python with pandas and pyarrow; or why a test cannot run here. */
export type TablesPython = { python: string; missing?: undefined } | { missing: string };

/** The Python that `TABLES_PYTHON` names, else `python3`. Nothing is fetched. */
export function findTablesPython(): TablesPython {
  const python = process.env.TABLES_PYTHON ?? "python3";
  try {
    execFileSync(python, ["-c", "import pandas, pyarrow, zstandard"], { stdio: "pipe" });
    return { python };
  } catch {
    const missing = `${python} lacks pandas, pyarrow or zstandard: set TABLES_PYTHON to another`;
    return { missing };
  }
}

import { describe, expect, it } from "vitest";
import { checkInput } from "../../../src/serve/batches/check-input.ts";

const line = (more: object = {}, body: object = {}) =>
  JSON.stringify({
    ...{ custom_id: "a", method: "POST", url: "/v1/embeddings" },
    body: { model: "m", input: "x", ...body },
    ...more,
  });

async function* linesOf(lines: readonly string[]) {
  yield* lines;
}

const check = (lines: readonly string[], maxRequests = 10) =>
  checkInput(linesOf(lines), {
    ...{ endpoint: "/v1/embeddings", maxRequests },
    isServed: (model) => model === "m" || model === "n",
  });

const problemsOf = async (lines: readonly string[], maxRequests?: number) =>
  (await check(lines, maxRequests)).problems.map((each) => [each.line, each.code, each.param]);

describe("checkInput", () => {
  it("counts requests, and skips empty lines", async () => {
    const checked = await check([line(), "", line({ custom_id: "b" }), "  "]);
    expect(checked).toEqual({ requests: 2, model: "m", problems: [] });
  });

  it("names every fault with its line and field", async () => {
    const found = await problemsOf([
      "[1]",
      line({ custom_id: undefined, method: null }),
      line({ custom_id: 7 }),
      line({ custom_id: "b", method: "GET" }),
      line({ custom_id: "c", body: "text" }),
      line({ custom_id: "d" }, { model: undefined, input: undefined }),
      line({ custom_id: "e" }, { model: 5 }),
    ]);
    expect(found).toEqual([
      [1, "invalid_json_line", null],
      [2, "missing_required_parameter", "custom_id"],
      [2, "missing_required_parameter", "method"],
      [3, "invalid_type", "custom_id"],
      [4, "invalid_value", "method"],
      [5, "invalid_type", "body"],
      [6, "missing_required_parameter", "body.model"],
      [6, "missing_required_parameter", "body.input"],
      [7, "invalid_type", "body.model"],
    ]);
  });

  it("refuses an empty file, and one with too many requests", async () => {
    expect(await problemsOf(["", " "])).toEqual([[null, "empty_file", null]]);
    const many = ["a", "b", "c"].map((id) => line({ custom_id: id }));
    expect(await problemsOf(many, 2)).toEqual([[null, "too_many_tasks", null]]);
    expect(await problemsOf(many, 3)).toEqual([]);
  });

  it("reports a limited number of problems, and short ones", async () => {
    const { problems } = await check(
      Array.from({ length: 2000 }, () => "{"),
      5000,
    );
    expect(problems).toHaveLength(1000);
    const [long] = (await check([line({}, { model: "x".repeat(10_000) })])).problems;
    expect(long!.message.length).toBeLessThan(300);
  });
});

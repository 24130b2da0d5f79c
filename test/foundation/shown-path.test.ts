import { describe, expect, it } from "vitest";
import { shownPath, shownText } from "../../src/foundation/shown-path.ts";

describe("addresses in texts for people", () => {
  it.each([
    ["https://h/a?page=2&lang=en&day=2024-02-01", "https://h/a?page=2&lang=en&day=2024-02-01"],
    ["https://h/a?whatever=Zm9vYmFyMTIz", "https://h/a?whatever=[redacted]"],
    ["https://h/a?x=1&sig=plain&y=two", "https://h/a?x=1&sig=[redacted]&y=two"],
    ["https://h/a?sv9f8d7e6", "https://h/a?[redacted]"],
    ["https://h/a#access_token=abc", "https://h/a#access_token=[redacted]"],
    ["postgres://me:pw1@db/x?sslkey=k", "postgres://[redacted]@db/x?sslkey=[redacted]"],
    ['{"url":"s3://b/k?X-Amz-Credential=AKIA1"}', '{"url":"s3://b/k?X-Amz-Credential=[redacted]"}'],
    ["(see https://h/?k=a1b2c3).", "(see https://h/?k=[redacted])."],
    ["what? a=b1c2d3 is no address", "what? a=b1c2d3 is no address"],
    ['"http://h/?a=b1\\"x', '"http://h/?a=[redacted]\\"x'],
  ])("hide what is secret: %s", (text, shown) => expect(shownText(text)).toBe(shown));

  it("are told the path alone where a file is named", () => {
    expect(shownPath("https://h/a.jsonl?page=2")).toBe("https://h/a.jsonl");
    expect(shownPath("what?.jsonl")).toBe("what?.jsonl");
  });
});

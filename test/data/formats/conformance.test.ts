import { csvFormat, tsvFormat } from "../../../src/data/formats/csv/csv.ts";
import { jsonFormat } from "../../../src/data/formats/json.ts";
import { jsonlFormat } from "../../../src/data/formats/jsonl.ts";
import { textFormat } from "../../../src/data/formats/text.ts";
import { filesFormat, textFileFormat } from "../../../src/data/formats/whole-file.ts";
import { formatConformance } from "../../conformance/format-conformance.ts";

const bom = "\uFEFF";
const invalid = (before: string, after: string) =>
  Buffer.concat([Buffer.from(before), Buffer.of(0xff, 0xfe), Buffer.from(after)]);

formatConformance({ make: jsonlFormat }, [
  { name: "nothing", content: "", rows: [] },
  { name: "blank lines", content: `${bom}\n \r\n\t`, rows: [] },
  {
    name: "lines of any end",
    content: `${bom}{"a":1}\r\n\n{"b":"ü\\n","a":[null]}\n \n{}`,
    rows: [{ a: 1 }, { b: "ü\n", a: [null] }, {}],
  },
  {
    name: "faults",
    content: invalid('{"a":1}\n{"a":\n[1]\n{"a":"', '"}\n{"a":"\0"}\n{"a":2}\n'),
    rows: [{ a: 1 }, "JSON_INVALID", "ROW_NOT_OBJECT", "UTF8_INVALID", "NUL_BYTE", { a: 2 }],
  },
  {
    name: "a long line",
    content: `{"a":"${"x".repeat(90)}"}\n{"a":1,"b":2}\n`,
    rows: ["LINE_TOO_LONG", { a: 1, b: 2 }],
    maxLineBytes: 80,
  },
]);

formatConformance({ make: jsonFormat }, [
  { name: "an empty array", content: " [ ]\n", rows: [] },
  {
    name: "an array over lines",
    content: `${bom}[\n  {"a": 1, "b": {"c": "]"}},\n  {"a": 2}\r\n]\n`,
    rows: [{ a: 1, b: { c: "]" } }, { a: 2 }],
  },
  { name: "one object", content: '{\n "a": "ü"\n}\n', rows: [{ a: "ü" }] },
  {
    name: "faults of elements",
    content: '[{"a":1}, 5, {"a" 1}, {"a":2}]',
    rows: [{ a: 1 }, "ROW_NOT_OBJECT", "JSON_INVALID", { a: 2 }],
  },
]);

const csvRows = [
  { id: "007", text: 'say "hi", then\nleave', note: "" },
  { id: "2", text: "", note: "ü😀" },
  { id: "3", text: "a\r\nb", note: " spaces " },
];
const csvRecords = [
  "id,text,note",
  '007,"say ""hi"", then\nleave",',
  '2,"",ü😀',
  '"3","a\r\nb", spaces ',
];

formatConformance({ make: csvFormat }, [
  { name: "nothing", content: "", rows: [] },
  { name: "a header alone", content: `${bom}a,b\r\n`, rows: [] },
  { name: "quotes and lines within", content: csvRecords.join("\n"), rows: csvRows },
  { name: "the same by Windows", content: `${bom}${csvRecords.join("\r\n")}\r\n`, rows: csvRows },
  {
    name: "blank lines and mixed ends",
    content: "\n\r\na,b\n\n1,2\r\n\r\n\n3,4\n5,6\r\n\n",
    rows: [
      { a: "1", b: "2" },
      { a: "3", b: "4" },
      { a: "5", b: "6" },
    ],
  },
  {
    name: "one column, of which a value is empty",
    content: 'a\n1\n\n""\n2\n',
    rows: [{ a: "1" }, { a: "" }, { a: "2" }],
  },
  {
    name: "faults of records",
    content: invalid('a,b\n1,2\n1\n1,2,3\n"x"y,2\n1,', '\n1,\0\n5" pipe,"6"\n'),
    rows: [
      { a: "1", b: "2" },
      "CSV_INVALID",
      "CSV_INVALID",
      "CSV_INVALID",
      "UTF8_INVALID",
      "NUL_BYTE",
      { a: '5" pipe', b: "6" },
    ],
  },
  {
    name: "a long record",
    content: `a,b\n1,"${"x\n".repeat(50)}"\n1,2\n`,
    rows: ["LINE_TOO_LONG", { a: "1", b: "2" }],
    maxLineBytes: 80,
  },
  {
    name: "names that mean something to JavaScript",
    content: "__proto__,constructor,2,1\na,b,c,d\n",
    rows: [JSON.parse('{"__proto__":"a","constructor":"b","2":"c","1":"d"}')],
  },
  {
    name: "many records",
    content: `id,text\n${Array.from({ length: 700 }, (_, n) => `${n},"row ${n}"\n`).join("")}`,
    rows: Array.from({ length: 700 }, (_, n) => ({ id: `${n}`, text: `row ${n}` })),
  },
]);

formatConformance({ make: tsvFormat }, [
  {
    name: "tabs",
    content: 'a\tb\n1,5\t"x\ty"\n2\tz\n',
    rows: [
      { a: "1,5", b: "x\ty" },
      { a: "2", b: "z" },
    ],
  },
]);

formatConformance({ make: textFormat }, [
  { name: "lines", content: `${bom}one\r\n\n  two\nü`, rows: ["one", "  two", "ü"].map(textRow) },
  {
    name: "faults",
    content: invalid("one\n", "\ntwo"),
    rows: [{ text: "one" }, "UTF8_INVALID", { text: "two" }],
  },
]);

const named = { name: "sample", path: "sample" };
formatConformance({ make: textFileFormat }, [
  { name: "nothing", content: "", rows: [{ text: "", ...named }] },
  { name: "a text", content: `${bom}one\r\ntwo\n`, rows: [{ text: "one\r\ntwo\n", ...named }] },
  { name: "no UTF-8", content: invalid("a", "b"), rows: ["UTF8_INVALID"] },
  { name: "too long", content: "x".repeat(90), rows: ["LINE_TOO_LONG"], maxLineBytes: 80 },
]);

formatConformance({ make: filesFormat }, [
  { name: "nothing", content: "", rows: [{ ...named, size: 0 }] },
  { name: "bytes", content: invalid("a", "\0"), rows: [{ ...named, size: 4 }] },
]);

function textRow(text: string) {
  return { text };
}

import { describe, expect, it } from "vitest";
import { parseHubPath } from "../../../src/data/sources/hugging-face.ts";
import { inputStores } from "../../../src/data/sources/open.ts";
import type { RandomReader } from "../../../src/data/storage/storage.ts";
import { sha256Hex } from "../../../src/foundation/hashing.ts";
import { fileListener, numberedText, sourceContext, webServer } from "./web-server.ts";

/** What the hub has of `o/n`: small files lie there, large ones elsewhere. */
const small = Buffer.from('{"text":"small"}\n');
const large = numberedText(600_000);
const oid = "a".repeat(40);
const tree = [
  { type: "directory", oid: "d".repeat(40), size: 0, path: "data" },
  { type: "file", oid, size: small.length, path: "README.md" },
  { type: "file", oid, size: small.length, path: "data/part 1.jsonl" },
  {
    type: "file",
    oid: "b".repeat(40),
    size: 130,
    lfs: { oid: sha256Hex(large), size: large.length },
    path: "data/part-2.jsonl",
  },
  { type: "directory", oid: "d".repeat(40), size: 0, path: "data/deep" },
  { type: "file", oid, size: small.length, path: "data/deep/part-3.jsonl" },
];

interface Hub {
  environment: Record<string, string>;
  hub: Awaited<ReturnType<typeof webServer>>;
  far: Awaited<ReturnType<typeof webServer>>;
  /** Content of the large file, for the hub to say. */
  said: { sha256: string };
}

/** A stand-in for the hub, which gives pages of two entries, and for where large files lie. */
async function startHub(token = ""): Promise<Hub> {
  const said = { sha256: sha256Hex(large) };
  const far = await webServer(
    fileListener(
      () => large,
      () => ({ etag: '"far"' }),
    ),
  );
  const hub = await webServer((request, response) => {
    const { pathname, searchParams } = new URL(request.url!, "http://hub");
    if (token !== "" && request.headers.authorization !== `Bearer ${token}`) {
      return void response.writeHead(401, { "x-error-code": "RepoNotFound" }).end();
    }
    const [, folder] = /^\/api\/datasets\/o\/n\/tree\/main\/?(.*)$/.exec(pathname) ?? [];
    if (folder !== undefined) {
      const below = folder === "" ? "" : `${decodeURIComponent(folder)}/`;
      const isDeep = searchParams.get("recursive") === "true";
      const found = tree.filter(
        ({ path }) => path.startsWith(below) && (isDeep || !path.slice(below.length).includes("/")),
      );
      if (found.length === 0) {
        return void response.writeHead(404, { "x-error-code": "EntryNotFound" }).end();
      }
      const at = Number(searchParams.get("cursor") ?? 0);
      const next = `<${hub.origin}${pathname}?recursive=${isDeep}&cursor=${at + 2}>; rel="next"`;
      const link = at + 2 < found.length ? { link: next } : {};
      return void response.writeHead(200, link).end(JSON.stringify(found.slice(at, at + 2)));
    }
    if (pathname === "/datasets/o/n/resolve/main/data/part-2.jsonl") {
      const linked = { "x-linked-etag": `"${said.sha256}"`, "x-linked-size": `${large.length}` };
      return void response.writeHead(302, { location: `${far.origin}/blob`, ...linked }).end();
    }
    if (pathname === "/datasets/o/n/resolve/main/data/part%201.jsonl") {
      return fileListener(
        () => small,
        () => ({ etag: `"${oid}"` }),
      )(request, response);
    }
    const code = pathname.includes("/o/n/") ? "RevisionNotFound" : "RepoNotFound";
    response.writeHead(404, { "x-error-code": code }).end();
  });
  const environment: Record<string, string> = { HF_ENDPOINT: hub.origin };
  if (token !== "") environment.HF_TOKEN = token;
  return { environment, hub, far, said };
}

const inputsOf = (environment: Record<string, string>) => {
  const inputs = inputStores(sourceContext(environment));
  const find = (path: string) => inputs.expand([{ path, maxLineBytes: 1000 }], "/");
  return { ...inputs, find };
};

async function textOf(reader: RandomReader): Promise<Buffer> {
  const bytes = await reader.read(0, reader.bytes);
  await reader.close();
  return Buffer.from(bytes);
}

describe("files of datasets on the hub", () => {
  it("are listed through all pages, with what the hub says of their content", async () => {
    const { environment, hub } = await startHub();
    const { find, open } = inputsOf(environment);
    const root = "hf://datasets/o/n";
    const found = await find(`${root}/data/**/part*.jsonl`);
    expect(found).toMatchObject([
      { path: `${root}/data/deep/part-3.jsonl`, bytes: small.length, etag: oid },
      { path: `${root}/data/part 1.jsonl`, format: "jsonl" },
      { path: `${root}/data/part-2.jsonl`, bytes: large.length, etag: sha256Hex(large) },
    ]);
    expect(hub.requests.filter(({ url }) => url?.includes("cursor")).length).toBeGreaterThan(0);
    expect(await find(`${root}@main/data/part 1.jsonl`)).toMatchObject([{ etag: oid }]);
    const readers = [found[1]!, found[2]!].map(({ path, etag }) => open(path, { etag }));
    const [one, two] = await Promise.all(readers);
    expect(await textOf(one!)).toEqual(small);
    expect(Buffer.compare(await textOf(two!), large)).toBe(0);
  });

  it("are asked for with HF_TOKEN, which no other server gets", async () => {
    const { environment, hub, far } = await startHub("hf_secret");
    const { find, open } = inputsOf(environment);
    const [found] = await find("hf://datasets/o/n/data/part-2.jsonl");
    await textOf(await open(found!.path, { etag: found!.etag }));
    const sent = (server: typeof hub) =>
      server.requests.map(({ headers }) => headers.authorization);
    expect(new Set(sent(hub))).toEqual(new Set(["Bearer hf_secret"]));
    expect(new Set(sent(far))).toEqual(new Set([undefined]));
    expect(JSON.stringify(found)).not.toContain("hf_secret");
    const { HF_ENDPOINT } = environment;
    await expect(
      inputsOf({ HF_ENDPOINT: HF_ENDPOINT! }).find("hf://datasets/o/n/data/*"),
    ).rejects.toMatchObject({
      code: "INPUT_MISSING",
      hint: expect.stringContaining("HF_TOKEN"),
    });
  });

  it("are listed below a folder, and one by its name", async () => {
    const { environment } = await startHub();
    const { list } = inputsOf(environment);
    const listed = async (place: string) => {
      const paths: string[] = [];
      for await (const { path } of list(place)) paths.push(path.replace("hf://datasets/o/n/", ""));
      return paths.sort();
    };
    const all = ["data/deep/part-3.jsonl", "data/part 1.jsonl", "data/part-2.jsonl"];
    expect(await listed("hf://datasets/o/n")).toEqual(["README.md", ...all]);
    expect(await listed("hf://datasets/o/n/data")).toEqual(all);
    expect(await listed("hf://datasets/o/n/data/part-2.jsonl")).toEqual(["data/part-2.jsonl"]);
    expect(await listed("hf://datasets/o/n/dat")).toEqual([]);
  });

  it("that changed since are refused", async () => {
    const { environment, said } = await startHub();
    const { find, open } = inputsOf(environment);
    const [found] = await find("hf://datasets/o/n/data/part-2.jsonl");
    said.sha256 = "c".repeat(64);
    await expect(open(found!.path, { etag: found!.etag })).rejects.toMatchObject({
      code: "INPUT_CHANGED",
    });
  });

  it.each([
    ["hf://datasets/o/n/data/prt-2.jsonl", "INPUT_MISSING", "part-2.jsonl?"],
    ["hf://datasets/o/n/dta/*.jsonl", "INPUT_MISSING", "hf://datasets/o/n/data?"],
    ["hf://datasets/o/n/data/*.csv", "INPUT_MISSING", "holds deep, part 1.jsonl, part-2.jsonl"],
    ["hf://datasets/o/n@dev/data/*.jsonl", "INPUT_MISSING", "branches and tags"],
    ["hf://datasets/o/other/*.jsonl", "INPUT_MISSING", "check owner and name"],
    ["hf://o/n/*.jsonl", "INPUT_UNREADABLE", "hf://datasets/OWNER/NAME"],
  ])("that are not there: %s is %s", async (path, code, hint) => {
    const { environment } = await startHub();
    await expect(inputsOf(environment).find(path)).rejects.toMatchObject({
      code,
      hint: expect.stringContaining(hint),
    });
  });

  it("are not asked for offline", async () => {
    await expect(
      inputsOf({ HF_HUB_OFFLINE: "1" }).find("hf://datasets/o/n/*.jsonl"),
    ).rejects.toMatchObject({ code: "INPUT_UNREACHABLE" });
  });

  const file = { type: "file", oid, size: 1, path: "a.jsonl" };
  it.each([
    ["goes on at itself", "/api/datasets/o/n/tree/main?recursive=false", [file]],
    ["goes on at no address", "http://[", [file]],
    ["holds no list", undefined, { file }],
    ["holds null", undefined, [null]],
    ["holds a file without a size", undefined, [{ ...file, size: "1" }]],
    ["is no JSON", undefined, '[{"type":'],
    ["is no UTF-8", undefined, Buffer.from('[{"type":"\xe9"}]', "latin1")],
  ])("are not found by a listing that %s, and that is said", async (_, next, page) => {
    const hub = await webServer((_request, response) => {
      const text = typeof page === "string" || Buffer.isBuffer(page) ? page : JSON.stringify(page);
      response.writeHead(200, next === undefined ? {} : { link: `<${next}>; rel="next"` });
      response.end(text);
    });
    const inputs = inputsOf({ HF_ENDPOINT: hub.origin });
    await expect(inputs.find("hf://datasets/o/n/*.jsonl")).rejects.toMatchObject({
      code: "INPUT_UNREADABLE",
      message: expect.stringContaining("the hub's listing"),
    });
    expect(hub.requests.length).toBeLessThan(4);
  });

  it("are not listed on at another server, which would get the token", async () => {
    const far = await webServer((_request, response) => response.writeHead(500).end());
    const hub = await webServer((_request, response) => {
      response.writeHead(200, { link: `<${far.origin}/next>; rel="next"` }).end("[]");
    });
    const inputs = inputsOf({ HF_ENDPOINT: hub.origin, HF_TOKEN: "hf_secret" });
    await expect(inputs.find("hf://datasets/o/n/*.jsonl")).rejects.toMatchObject({
      code: "INPUT_UNREADABLE",
    });
    expect(far.requests).toEqual([]);
  });
});

describe("parseHubPath", () => {
  it("reads revisions, also those with slashes", () => {
    const parsed = (address: string) => {
      const { repository, revision, path } = parseHubPath(address);
      return [repository, revision, path];
    };
    expect(parsed("hf://datasets/o/n.x/a/b.jsonl")).toEqual(["o/n.x", "main", "a/b.jsonl"]);
    expect(parsed("hf://datasets/o/n@v1.0/a")).toEqual(["o/n", "v1.0", "a"]);
    expect(parsed("hf://datasets/o/n@refs/convert/parquet/default/0.parquet")).toEqual([
      "o/n",
      "refs/convert/parquet",
      "default/0.parquet",
    ]);
    expect(parsed("hf://datasets/o/n@feature%2Fx/a")).toEqual(["o/n", "feature/x", "a"]);
  });
});

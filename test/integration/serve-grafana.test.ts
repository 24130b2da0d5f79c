import { readFileSync, writeFileSync } from "node:fs";
import { delimiter, join } from "node:path";
import { expect, it } from "vitest";
import { standInDriver, threeGpus } from "../engines/stand-in-driver.ts";
import { root } from "../meta/source-tree.ts";
import { type Served, serveFolder, startServe } from "./served.ts";
import { clientOf } from "./served-batches.ts";

interface Source {
  type: string;
  uid: string;
}

interface Dashboard {
  schemaVersion: number;
  uid: string;
  panels: {
    id: number;
    title: string;
    datasource: Source;
    targets: { refId: string; datasource: Source; expr: string; legendFormat: string }[];
  }[];
  templating: {
    list: {
      name: string;
      type: string;
      query: unknown;
      definition?: string;
      datasource?: Source;
    }[];
  };
}

const dashboard: Dashboard = JSON.parse(
  readFileSync(join(root, "docs/serve-grafana.json"), "utf8"),
);
const exprs = dashboard.panels.flatMap(({ targets }) => targets.map(({ expr }) => expr));
const variables = dashboard.templating.list;

/** Figures of a query, with the labels that it names; the scrape adds `instance`. */
function figuresOf(expr: string): { name: string; labels: string[] }[] {
  const groups = [...expr.matchAll(/\bby \(([^)]*)\)/g)].flatMap(([, by]) => by!.split(/, */));
  return [...expr.matchAll(/([a-z]\w*)\{([^}]*)\}/g)].map(([, name, selector]) => {
    const selected = [...selector!.matchAll(/(\w+)=~/g)].map(([, label]) => label!);
    return {
      name: name!,
      labels: [...groups, ...selected].filter((label) => label !== "instance"),
    };
  });
}

/** The figures of the table of docs/serve.md, with their labels. */
function documented(): Map<string, string[]> {
  const page = readFileSync(join(root, "docs/serve.md"), "utf8");
  const lines = [...page.matchAll(/^\| `(sluice_\w+)` \| ([^|]*) \|/gm)];
  return new Map(
    lines.map(([, name, labels]) => [
      name!,
      [...labels!.matchAll(/`(\w+)`/g)].map(([, each]) => each!),
    ]),
  );
}

const family = (name: string) => name.replace(/_(bucket|sum|count)$/, "");

const samplesOf = async ({ addresses }: Served) => {
  const text = await (await fetch(`${addresses.metrics}/metrics`)).text();
  return text.split("\n").filter((line) => line !== "" && !line.startsWith("#"));
};

/** Begins a request to the model `slow`, and leaves. */
async function leave(server: Served): Promise<void> {
  const leaving = new AbortController();
  const messages = [{ role: "user" as const, content: "Tell me of rivers" }];
  const options = { signal: leaving.signal };
  const left = clientOf(server).chat.completions.create({ model: "slow", messages }, options);
  const refused = expect(left).rejects.toThrow();
  const begun = 'sluice_requests_in_flight{model="slow"} 1';
  await expect.poll(() => samplesOf(server)).toContain(begun);
  leaving.abort();
  await refused;
  const counted = expect.stringContaining("sluice_errors_total{");
  await expect.poll(() => samplesOf(server)).toContainEqual(counted);
}

it("the dashboard shows every figure of the documentation, and no other", async () => {
  const driver = standInDriver(threeGpus, 0, [], ["0, 1024, 46068, 37", "1, 0, 46068, 0"]);
  const folder = serveFolder();
  const answers = "export const predict = (batch) => batch.map(() => batch.length);";
  writeFileSync(join(folder, "answers.mjs"), `${answers}\n`);
  const batching = { engine: "predictor", module: "./answers.mjs" };
  const server = await startServe(
    folder,
    {
      models: {
        m: { engine: "fake", latencyMs: 50 },
        slow: { engine: "fake", latencyMs: 30_000 },
        batching,
      },
    },
    { PATH: `${driver}${delimiter}${process.env.PATH}` },
  );
  const chats = clientOf(server).chat.completions;
  const asked = { model: "m", messages: [{ role: "user" as const, content: "Tell me of rivers" }] };
  await chats.create(asked);
  const together = await Promise.all(
    Array.from({ length: 20 }, () => chats.create({ ...asked, model: "batching" })),
  );
  for await (const _ of await chats.create({ ...asked, stream: true })) {
    // Read to its end.
  }
  await expect(chats.create({ ...asked, temperature: 99 })).rejects.toMatchObject({ status: 400 });
  await leave(server);
  await expect.poll(() => samplesOf(server)).toContain('sluice_gpu_utilization{device="0"} 0.37');
  const samples = await samplesOf(server);
  // Each answer says how many requests were in its batch: so many batches there were.
  const batches = together.reduce((sum, { choices }) => {
    return sum + 1 / Number(choices[0]!.message.content);
  }, 0);
  expect(samples).toContain('sluice_batch_requests_sum{model="batching"} 20');
  expect(samples).toContain(`sluice_batch_requests_count{model="batching"} ${Math.round(batches)}`);

  const shown = exprs.flatMap((expr) => {
    const figures = figuresOf(expr);
    expect(figures, expr).not.toEqual([]);
    return figures;
  });
  for (const { name, labels } of shown) {
    const own = samples.filter(
      (line) => line.startsWith(`${name}{`) || line.startsWith(`${name} `),
    );
    expect(own, name).not.toEqual([]);
    for (const label of labels) {
      expect(
        own.every((line) => line.includes(`${label}="`)),
        `${name} ${label}`,
      ).toBe(true);
    }
  }
  const table = documented();
  expect(table.size).toBeGreaterThan(5);
  const ofSluice = shown
    .map(({ name }) => family(name))
    .filter((name) => name.startsWith("sluice_"));
  expect(new Set(ofSluice)).toEqual(new Set(table.keys()));
  // What the table says of the labels holds of what is printed.
  for (const [name, labels] of table) {
    const [sample] = samples.filter((line) => new RegExp(`^${name}(_count)?\\{`).test(line));
    expect(
      labels.every((label) => sample!.includes(`${label}="`)),
      `${name} ${labels}`,
    ).toBe(true);
  }
});

it("the dashboard asks for nothing that it does not define", () => {
  const known = new Set([...variables.map(({ name }) => name), "__rate_interval"]);
  const used = [...exprs, ...variables.map(({ definition = "" }) => definition)].flatMap((text) =>
    [...text.matchAll(/\$(\w+)/g)].map(([, name]) => name!),
  );
  expect(used.filter((name) => !known.has(name))).toEqual([]);
  for (const { title, targets } of dashboard.panels) {
    for (const { expr, legendFormat } of targets) {
      const groups = figuresOf(expr).flatMap(({ labels }) => labels);
      const named = [...legendFormat.matchAll(/\{\{(\w+)\}\}/g)].map(([, label]) => label!);
      expect(
        named.filter((label) => !groups.includes(label)),
        title,
      ).toEqual([]);
    }
  }
});

it("the dashboard loads as it is: of the source that is chosen, with ids of its own", () => {
  const { schemaVersion, uid, panels } = dashboard;
  // Since 36, a source is an object with type and uid.
  expect(schemaVersion).toBeGreaterThanOrEqual(36);
  expect(uid).toMatch(/^[\w-]{1,40}$/);
  expect(new Set(panels.map(({ id }) => id)).size).toBe(panels.length);
  const [chosen, ...others] = variables;
  expect(chosen).toMatchObject({ name: "datasource", type: "datasource", query: "prometheus" });
  const targets = panels.flatMap((panel) => panel.targets);
  const sources = [...panels, ...targets, ...others].map(({ datasource }) => datasource);
  for (const source of sources) {
    // biome-ignore lint/suspicious/noTemplateCurlyInString: a variable of Grafana.
    expect(source).toEqual({ type: "prometheus", uid: "${datasource}" });
  }
  for (const { targets: own } of panels) {
    expect(new Set(own.map(({ refId }) => refId)).size).toBe(own.length);
  }
});

it("each rate is of the counters of a range that fits the time between scrapes", () => {
  const counters = /_(total|bucket|sum|count)$/;
  for (const expr of exprs) {
    const all = expr.match(/\b(rate|increase)\(/g) ?? [];
    const ranged = /\b(?:rate|increase)\((\w+)\{[^{}]*\}\[\$__rate_interval\]\)/g;
    const names = [...expr.matchAll(ranged)].map(([, name]) => name!);
    expect(names.length, expr).toBe(all.length);
    expect(
      names.filter((name) => !counters.test(name)),
      expr,
    ).toEqual([]);
    let rest = expr.replace(/"[^"]*"/g, "");
    for (let before = ""; before !== rest; ) {
      before = rest;
      rest = rest.replace(/\([^()[\]{}]*\)|\[[^()[\]{}]*\]|\{[^()[\]{}]*\}/g, "");
    }
    expect(rest, `brackets of ${expr}`).not.toMatch(/[()[\]{}]/);
    // A counter is never shown as it is.
    const figures = figuresOf(expr).filter(({ name }) => counters.test(name));
    expect(figures.length, expr).toBe(names.length);
  }
});

import { describe, expect, it } from "vitest";
import type { ModelContext } from "../../../src/engines/models/model-context.ts";
import { contactEndpoints } from "../../../src/engines/openai/first-contact.ts";
import { openaiModel } from "../../../src/engines/openai/options.ts";
import type { Json } from "../../../src/foundation/json.ts";
import type { FakeServerOptions, ServerBehaviour } from "../../../src/testing/fake-server.ts";
import { freePort } from "../../free-ports.ts";
import { engineContext, rejectionOf } from "../engine-context.ts";
import { keptLog, serve } from "./openai-engine.ts";

type Behave = NonNullable<FakeServerOptions["behave"]>;

const listing = (...ids: string[]): ServerBehaviour => ({
  kind: "json",
  body: { data: ids.map((id): Json => ({ id })) },
});
const status = (code: number, message = "no"): ServerBehaviour => ({
  kind: "status",
  ...{ status: code, body: { error: { message } } },
});

/** A server that gives one page of models, and does this with chats. */
async function served(models: ServerBehaviour, chats?: ServerBehaviour) {
  const chatted: unknown[] = [];
  const behave: Behave = ({ method, json }) => {
    if (method === "GET") return models;
    chatted.push(json);
    return chats;
  };
  return { ...(await serve({ behave })), chatted };
}

function contact(model: object, changes: Partial<ModelContext>) {
  const options = openaiModel.parse({ engine: "openai", name: "small", ...model });
  return contactEndpoints(options, { ...engineContext(), ...changes });
}

describe("contactEndpoints", () => {
  it.each([
    ["lists the name", listing("small", "large")],
    ["lists it as its latest version", listing("small:latest")],
    ["lists nothing", listing()],
    ["has no such page", status(404)],
    ["gives no list", { kind: "html" } as const],
    ["is busy", status(503)],
  ])("takes a server that %s, unasked further", async (_, models) => {
    const { baseUrl, chatted } = await served(models);
    await contact({ baseUrl }, {});
    expect(chatted).toEqual([]);
  });

  it.each([
    ["lists other names", listing("large")],
    ["shows its list to nobody", status(403)],
  ])(
    "asks one that %s a short question, and takes it where that is answered",
    async (_, models) => {
      const { baseUrl, chatted } = await served(models);
      await contact({ baseUrl }, {});
      expect(chatted).toMatchObject([{ model: "small", max_tokens: 1 }]);
    },
  );

  it("names what else there is where the model is unknown", async () => {
    const names = ["ant", "bee", "cat", "dog", "elk", "fox"];
    const unknown = status(404, "The model `small` does not exist.");
    const { baseUrl } = await served(listing(...names), unknown);
    expect(await rejectionOf(contact({ baseUrl }, {}))).toMatchObject({
      ...{ code: "MODEL_UNKNOWN", hint: "it has ant, bee, cat, dog, elk and 1 more" },
    });
  });

  it("fails where no endpoint is left, and warns of one that is", async () => {
    const good = await served(listing("small"));
    const bad = await served(status(401), status(401));
    const { lines, logger } = keptLog();
    const both = [{ baseUrl: bad.baseUrl }, { baseUrl: good.baseUrl }];
    await contact({ endpoints: both }, { logger });
    expect(lines.map(({ facts }) => facts.endpoint)).toEqual([bad.baseUrl]);
    const error = await rejectionOf(contact({ endpoints: both.slice(0, 1) }, {}));
    expect(error).toMatchObject({ code: "AUTHENTICATION_FAILED" });
  });

  it("waits for the reply of a slow server for longer than for one that refuses", async () => {
    const { baseUrl } = await serve({ delayMs: 200, behave: () => listing("small") });
    await contact({ baseUrl, firstAnswerMs: 1 }, {});
    const nobody = `http://127.0.0.1:${await freePort()}/v1`;
    const error = await rejectionOf(contact({ baseUrl: nobody, firstAnswerMs: 1 }, {}));
    expect(error).toMatchObject({ code: "ENDPOINT_DOWN" });
  });

  it("asks nothing where it is given no time", async () => {
    const { baseUrl, chatted } = await served(status(401), status(401));
    await contact({ baseUrl, firstAnswerMs: 0 }, {});
    expect(chatted).toEqual([]);
  });

  it("ends when it is told to", async () => {
    const { baseUrl } = await served({ kind: "hang" });
    const controller = new AbortController();
    const ended = rejectionOf(contact({ baseUrl }, { signal: controller.signal }));
    controller.abort("stop");
    expect(await ended).toBe("stop");
  });
});

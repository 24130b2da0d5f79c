import { describe, expect, it } from "vitest";
import type { AnswerDelta } from "../../../src/foundation/inference.ts";
import type { JsonObject } from "../../../src/foundation/json.ts";
import { chatRequest, rejectionOf } from "../engine-context.ts";
import { never, openOver, serve } from "./openai-engine.ts";

const request = chatRequest(1);

describe("engine openai, streaming", () => {
  it("asks for a stream with usage only where somebody listens", async () => {
    const bodies: JsonObject[] = [];
    const server = await serve({ behave: ({ json }) => void (json && bodies.push(json)) });
    const engine = openOver([server]);
    const deltas: AnswerDelta[] = [];
    const heard = await engine.infer(request, never, (delta) => void deltas.push(delta));
    const silent = await engine.infer(request, never);
    expect(deltas.length).toBeGreaterThan(1);
    expect(heard.answers).toEqual(silent.answers);
    expect(heard.usage).toEqual(silent.usage);
    const streams = { stream: true, stream_options: { include_usage: true } };
    expect(bodies).toEqual([{ ...bodies[1], ...streams }, bodies[1]]);
    expect(bodies[1]).not.toHaveProperty("stream");
  });

  it("tells words while the others are still to come", async () => {
    const told = Promise.withResolvers<void>();
    const answer = { kind: "answer", text: "one two three", wordDelayMs: 5 } as const;
    const engine = openOver([await serve({ behave: () => answer })]);
    const asked = engine.infer(request, never, () => told.resolve());
    const first = await Promise.race([told.promise.then(() => "told"), asked.then(() => "whole")]);
    expect(first).toBe("told");
    expect((await asked).answers[0]!.text).toBe("one two three");
  });

  it("is not asked again, here or elsewhere, once a part of the answer was told", async () => {
    let asked = 0;
    const behave = () => {
      asked++;
      return { kind: "reset", when: "in-reply" } as const;
    };
    const servers = [await serve({ behave }), await serve({ behave })];
    const deltas: AnswerDelta[] = [];
    const answer = openOver(servers).infer(request, never, (delta) => void deltas.push(delta));
    expect(await rejectionOf(answer)).toMatchObject({ code: "CONNECTION_LOST", retryable: true });
    expect(asked).toBe(1);
    expect(deltas).toHaveLength(1);
  });

  it("is not asked again either when its endpoint is taken for ill because of that", async () => {
    const behave = () => ({ kind: "reset", when: "in-reply" }) as const;
    const engine = openOver([await serve({ behave }), await serve({ behave })]);
    for (let index = 0; index < 12; index++) {
      const deltas: AnswerDelta[] = [];
      const answer = engine.infer(chatRequest(index), never, (delta) => void deltas.push(delta));
      expect((await rejectionOf(answer))?.code).toBe("CONNECTION_LOST");
      expect(deltas).toHaveLength(1);
    }
  });

  it("is asked elsewhere where nothing was told", async () => {
    const deaf = await serve({ behave: () => ({ kind: "reset", when: "before-reply" }) });
    const texts: string[] = [];
    const engine = openOver([deaf, await serve()]);
    const tell = ({ text }: AnswerDelta) => void texts.push(text);
    const [answer] = (await engine.infer(request, never, tell)).answers;
    expect(texts.join("")).toBe(answer!.text);
  });

  it("is asked once of each server where all of them lose it", async () => {
    let asked = 0;
    const behave = () => {
      asked++;
      return { kind: "reset", when: "before-reply" } as const;
    };
    const engine = openOver([await serve({ behave }), await serve({ behave })]);
    const lost = await rejectionOf(engine.infer(request, never, () => {}));
    expect([lost?.code, asked]).toEqual(["CONNECTION_LOST", 2]);
  });

  it("takes a whole reply from a server that does not stream", async () => {
    const body = { choices: [{ message: { content: "Yes" }, finish_reason: "stop" }] };
    const engine = openOver([await serve({ behave: () => ({ kind: "json", body }) })]);
    expect((await engine.infer(request, never, () => {})).answers[0]!.text).toBe("Yes");
  });
});

import { afterAll, beforeAll } from "vitest";
import { type FakeServer, startFakeServer } from "../../src/testing/fake-server.ts";

/** A server for the tests of a file or group, which keeps the last message of each chat. */
export function promptsServer(text = "yes"): { asked: string[]; baseUrl(): string } {
  const asked: string[] = [];
  let server: FakeServer;
  beforeAll(async () => {
    server = await startFakeServer({
      behave: ({ json }) => {
        const messages = json?.messages as { content: string }[] | undefined;
        if (messages !== undefined) asked.push(messages.at(-1)!.content);
        return messages && { kind: "answer", text };
      },
    });
  });
  afterAll(() => server.close());
  return { asked, baseUrl: () => server.baseUrl };
}

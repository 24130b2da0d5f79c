import type { ClientRequest } from "node:http";

export interface TextReply {
  status: number;
  text: string;
}

/**
 * The reply to a request that is being sent. Only the last `maxChars` characters of its text are
 * kept.
 *
 * @throws whatever broke the connection.
 */
export function textReply(sent: ClientRequest, maxChars: number): Promise<TextReply> {
  return new Promise((resolve, reject) => {
    sent.on("error", reject);
    sent.on("response", (response) => {
      let text = "";
      response.setEncoding("utf8");
      response.on("data", (chunk: string) => {
        text = (text + chunk).slice(-maxChars);
      });
      response.on("error", reject);
      response.on("end", () => resolve({ status: response.statusCode ?? 0, text }));
    });
  });
}

import type { PromptType } from "./prompt-type.ts";

/** A field as it is, to be gone on with. */
export const completionTypes: readonly PromptType[] = [
  {
    names: ["completion", "completion.load"],
    options: ["field"],
    read: ({ field = "text" }) => ({ kind: "text", text: (fields) => fields.text(field) }),
  },
];

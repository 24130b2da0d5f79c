/**
 * The files of `sluice init`. Lines that begin with `#` and a key are options: without the `#` they
 * take effect, as a test shows.
 */
export const sampleJob = `# yaml-language-server: $schema=./node_modules/sluice/schema/job.json
# A first job. Paths are relative to this file. Every key: sluice run --help, docs/job-file.md.
name: reviews

# What to read: JSONL, a JSON array, or text lines; a file, a glob, or a list of them.
input:
  path: reviews.jsonl
  id: id

# Which model answers. This one is small, and is fetched once on the first run. A better one:
# any GGUF file by path or as hf:owner/repo/file.gguf, or a server:
#   model: { engine: openai, baseUrl: http://localhost:8000/v1, name: my-model }
model:
  engine: llama
  name: smollm2-135m-instruct

# The prompt of each row: a Jinja template over its fields. Several prompts: \`prompts\`.
prompt: |
  Review: {{ text }}
  Is this review positive or negative? Answer with one word.

generation:
  maxNewTokens: 8
  temperature: 0
  #seed: 1

# Results are the rows with the answer added; \`path\` is a directory, or a file like results.jsonl.
output:
  path: out
  field: sentiment
  #include: [usage, finishReason]

# What follows changes how the run goes, never its answers.
#workers: { max: 2 }
#retries: { maxAttempts: 3 }
#maxFailedRows: 0.01
#onRowError: dead-letter
`;

const reviews = [
  "The kettle boils in two minutes and pours without a drip. I bought a second one.",
  "The zip broke on the first day and nobody answers my letters.",
  "Bright lamp, warm light, and the switch is easy to find in the dark.",
  "The shoes look fine, but after an hour my feet hurt badly.",
  "Arrived late, with a scratch across the screen. I sent it back.",
  "My daughter has used this backpack for three years and it still looks new.",
  "The soup was cold and the bread was stale.",
  "Friendly people, clean rooms, and the best breakfast of our trip.",
];

/** The rows of the sample job, as JSONL. */
export const sampleRows = reviews
  .map((text, index) => `${JSON.stringify({ id: `review-${index + 1}`, text })}\n`)
  .join("");

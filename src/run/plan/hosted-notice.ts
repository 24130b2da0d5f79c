import { describeEngine } from "../../engines/registry.ts";
import { estimateFrom, sampleRequests } from "../preview/estimate.ts";
import type { RunContext } from "../run-context.ts";

const ownHosts =
  /^(localhost|127\..*|\[::1\]|10\..*|192\.168\..*|172\.(1[6-9]|2\d|3[01])\..*|.*\.(local|internal))$/;

/**
 * What a person should know before a server that others run, and may charge for, is asked: an
 * estimate of the tokens. Undefined for own hosts, for other engines, and where the job has a
 * `budget`, which says that somebody has thought about it.
 */
export async function hostedNotice(context: RunContext): Promise<string | undefined> {
  const { job } = context.plan;
  if (job.budget !== undefined) return undefined;
  const servers = describeEngine(job.model).servers?.(job.model) ?? [];
  const hosts = servers.map((address) => new URL(address).hostname);
  const hosted = hosts.find((hostname) => !ownHosts.test(hostname));
  if (hosted === undefined) return undefined;
  if (describeEngine(job.model).givesRows) {
    const rows = context.plan.rows.toLocaleString("en");
    return `a stage is about to ask ${hosted}, for ${rows} rows (set budget to silence this)`;
  }
  const { requests, tokens, usd } = estimateFrom(job, context.plan, await sampleRequests(context));
  const [asked, prompt, completion] = [
    requests.estimated,
    tokens.prompt.estimated,
    tokens.completion.high,
  ].map((count) => count.toLocaleString("en"));
  const money = usd === null ? "" : `, at most $${usd.high.toFixed(2)}`;
  return (
    `${hosted} is about to be asked ${asked} requests: about ${prompt} prompt tokens ` +
    `and at most ${completion} new ones${money} (set budget to silence this)`
  );
}

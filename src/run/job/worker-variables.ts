import { looksSecret } from "../../engines/secrets.ts";
import type { Environment } from "../../foundation/subprocess.ts";

const reference = /\$(\$?)\{([A-Za-z_]\w*)(?::-([^}]*))?\}/g;

export interface Filled {
  text: string;
  hasReference: boolean;
  /** Unset variables without a fallback. */
  missing: string[];
}

/**
 * Fills in `${NAME}` and `${NAME:-fallback}`; `$${NAME}` means the text itself.
 *
 * @example
 * filled("${HOST}:80", { HOST: "h" }); // { text: "h:80", hasReference: true, missing: [] }
 */
export function filled(text: string, environment: Environment): Filled {
  const missing: string[] = [];
  let hasReference = false;
  // There are no references after the last brace; searching there would take quadratic time.
  const end = text.lastIndexOf("}") + 1;
  const fill = (all: string, dollar: string, name: string, orElse?: string) => {
    if (dollar) return all.slice(1);
    hasReference = true;
    const found = environment[name];
    if (orElse !== undefined) return found || orElse;
    if (found === undefined) missing.push(name);
    return found ?? "";
  };
  const whole = text.slice(0, end).replace(reference, fill) + text.slice(end);
  return { text: whole, hasReference, missing };
}

/** A text that `filled` turns into this one, whatever it looks like. */
export function asLiteral(text: string): string {
  return text.replace(reference, (all) => `$${all}`);
}

/**
 * The job as runs store it: variables that look like secrets are stored by name, so that a later
 * call takes them from its own environment.
 */
export function storedJob<Job extends { env: Readonly<Record<string, string | null>> }>(
  job: Job,
): Job {
  const variables = Object.entries(job.env).map(([name, value]) => {
    const isSecret = value !== null && looksSecret(name, filled(value, {}).text);
    return [name, isSecret ? `\${${name}}` : value] as const;
  });
  return { ...job, env: Object.fromEntries(variables) };
}

const loaderVariable =
  /^(LD_\w+|DYLD_\w+|NODE_OPTIONS|NODE_PATH|BASH_ENV|ENV|PYTHONSTARTUP|PERL5OPT|RUBYOPT|JAVA_TOOL_OPTIONS)$/i;

/** True for a variable by which a job would make every process load its own code. */
export function loadsCode(name: string, value: string | null): boolean {
  return value !== null && loaderVariable.test(name);
}

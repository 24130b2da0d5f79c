import { SluiceError, withTexts } from "../foundation/errors.ts";
import { secretName, shownText } from "../foundation/shown-path.ts";
import type { Environment } from "../foundation/subprocess.ts";

/** Beginnings of services' keys and of JSON web tokens. */
const secretStart =
  /^(sk-|hf_|gh[opsur]_|github_pat_|glpat-|xox[abprs]-|AKIA|ASIA|AIza|eyJ[\w-]+\.|-----BEGIN)/;

/** Shorter values are not secrets, and would be found in the middle of words. */
const minSecretCharacters = 8;

function secretsOf(environment: Environment): [name: string, value: string][] {
  return Object.entries(environment).flatMap(([name, value]): [string, string][] => {
    const secret = value?.trim() ?? "";
    const isSecret = secretName.test(name) || secretStart.test(secret);
    return isSecret && secret.length >= minSecretCharacters ? [[name, secret]] : [];
  });
}

/**
 * Removes the secrets of an environment from texts, and credentials from the addresses in them.
 *
 * @example
 * redactor({ HF_TOKEN: "hf_12345678" })("token hf_12345678"); // "token [redacted]"
 */
export function redactor(environment: Environment): (text: string) => string {
  const secrets = secretsOf(environment);
  return (text) => {
    let clean = shownText(text);
    for (const [, value] of secrets) clean = clean.replaceAll(value, "[redacted]");
    return clean;
  };
}

/**
 * The same error without secrets in its texts: messages of the user's programs and modules go into
 * dead letters and logs.
 */
export function withoutSecrets<
  Failure extends Error & Partial<Pick<SluiceError, "server" | "hint">>,
>(error: Failure, redact: (text: string) => string): Failure {
  const clean = redact(error.message);
  if (clean !== error.message) error.message = clean;
  if (error.hint !== undefined) error.hint = redact(error.hint);
  if (error.server) error.server = withTexts(error.server, redact);
  return error;
}

/** True for a variable that looks like a secret, by its name or its value. */
export function looksSecret(name: string, value: string): boolean {
  return secretName.test(name) || secretStart.test(value) || shownText(value) !== value;
}

/**
 * Refuses texts of a job that contain a secret of the environment: they would be in the plan.
 *
 * @throws SluiceError `JOB_INVALID` that names the variable and not its value.
 */
export function refuseSecrets(
  texts: readonly string[],
  field: string,
  environment: Environment,
): void {
  for (const [name, value] of secretsOf(environment)) {
    if (!texts.some((text) => text.includes(value))) continue;
    throw new SluiceError("JOB_INVALID", `it holds the value of ${name}`, {
      field,
      hint: "leave it out: the server has the same environment, and plans are kept",
    });
  }
}

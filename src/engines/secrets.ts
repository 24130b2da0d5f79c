import { SluiceError } from "../foundation/errors.ts";

type Environment = Readonly<Record<string, string | undefined>>;

/** Names of variables that hold what nobody may read: HF_TOKEN, AWS_SECRET_ACCESS_KEY. */
const secretName = /(TOKEN|KEY|SECRET|PASSWORD|PASSWD|CREDENTIALS?)$/i;

/** Shorter values are none, and would be found in the middle of words. */
const minSecretCharacters = 8;

function secretsOf(environment: Environment): [name: string, value: string][] {
  return Object.entries(environment).flatMap(([name, value]): [string, string][] => {
    const secret = value?.trim() ?? "";
    return secretName.test(name) && secret.length >= minSecretCharacters ? [[name, secret]] : [];
  });
}

/**
 * Takes the secrets of an environment out of texts, and credentials out of the addresses in them.
 *
 * @example
 * redactor({ HF_TOKEN: "hf_12345678" })("token hf_12345678"); // "token [redacted]"
 */
export function redactor(environment: Environment): (text: string) => string {
  const secrets = secretsOf(environment);
  return (text) => {
    let clean = text.replaceAll(/\/\/[^/@\s]+@/g, "//[redacted]@");
    for (const [, value] of secrets) clean = clean.replaceAll(value, "[redacted]");
    return clean;
  };
}

/**
 * Refuses texts of a job that hold a secret of the environment: they would stand in the plan.
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

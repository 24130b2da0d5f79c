/** Numbers of Go, marks of YAML 1.1, and what some readers take for the end of a line or refuse. */
const odd = /^([-+]?0[box]|=$)|[\u007f-\u009f\u2028\u2029\ufeff\ufffe\uffff]/i;

/** YAML that kubectl and Python read as it is meant. To both, a plain `yes` means true. */
export async function yamlText(value: object): Promise<string> {
  const { Document, visit } = await import("yaml");
  const document = new Document(value, { version: "1.1", aliasDuplicateObjects: false });
  visit(document, {
    Scalar(_, node) {
      if (typeof node.value === "string" && odd.test(node.value)) node.type = "QUOTE_DOUBLE";
    },
  });
  const text = document.toString({ lineWidth: 0 });
  return text.replace(
    /[\u007f-\u009f\u2028\u2029\ufeff\ufffe\uffff]/g,
    (sign) => `\\u${sign.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
}

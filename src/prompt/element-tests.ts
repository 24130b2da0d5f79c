import { type JinjaNode, type RuntimeValue, toRuntime } from "./jinja-library.ts";

/** The value of a field such as `order.paid`; no value if an element lacks it. */
export function fieldIn(element: RuntimeValue, field: string): RuntimeValue {
  let value: RuntimeValue = element;
  for (const step of field.split(".")) {
    const fields: unknown = value.value;
    const inner: unknown =
      fields instanceof Map
        ? fields.get(step)
        : Array.isArray(fields) && /^\d+$/.test(step)
          ? fields[Number(step)]
          : undefined;
    if (inner === undefined) return toRuntime(undefined);
    value = inner as RuntimeValue;
  }
  return value;
}

/** Tests with a value, which are comparisons. */
const comparingTests: Readonly<Record<string, string>> = {
  ...{ equalto: "==", eq: "==", "==": "==", ne: "!=", "!=": "!=", in: "in" },
  ...{ lt: "<", lessthan: "<", "<": "<", le: "<=", "<=": "<=" },
  ...{ gt: ">", greaterthan: ">", ">": ">", ge: ">=", ">=": ">=" },
};

/** The test of an element, such as of `select("equalto", 2)`. */
export function testOf(operand: JinjaNode, name: string, given: readonly JinjaNode[]): JinjaNode {
  const operator = Object.hasOwn(comparingTests, name) ? comparingTests[name] : undefined;
  const [value, ...others] = given;
  if (operator !== undefined && value && others.length === 0) {
    const sides = { left: operand, right: value };
    return { type: "BinaryExpression", operator: { value: operator }, ...sides };
  }
  if (given.length > 0 || operator !== undefined) {
    const wanted = operator === undefined ? "no value" : "one value";
    throw new Error(`the test ${name} takes ${wanted}`);
  }
  return { type: "TestExpression", operand, test: { type: "Identifier", value: name } };
}

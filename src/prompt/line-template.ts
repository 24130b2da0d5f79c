/** A line with names in it: `texts[0] {names[0]} texts[1] … {names[n-1]} texts[n]`. */
export interface LineTemplate {
  readonly texts: readonly string[];
  readonly names: readonly string[];
}

/**
 * Parses a line such as `temperature={temperature}`. `{{` and `}}` are literal braces.
 *
 * @throws Error that says what is wrong.
 */
export function parseLineTemplate(source: string): LineTemplate {
  const texts = [""];
  const names: string[] = [];
  const parts = source.matchAll(/\{\{|\}\}|\{([^{}]*)\}|[{}]|[^{}]+/gu);
  for (const [part, name] of parts) {
    if (name !== undefined) {
      if (name.trim() === "") throw new Error("{} names nothing");
      names.push(name.trim());
      texts.push("");
    } else if (part === "{" || part === "}") {
      throw new Error(`a lone ${part}; write ${part}${part} for the character itself`);
    } else {
      texts[texts.length - 1] += part === "{{" ? "{" : part === "}}" ? "}" : part;
    }
  }
  return { texts, names };
}

/** The line with its names replaced by values. */
export function renderLine(template: LineTemplate, fill: (name: string) => string): string {
  return template.texts.reduce(
    (line, text, place) => line + (place === 0 ? "" : fill(template.names[place - 1]!)) + text,
    "",
  );
}

/**
 * The line with only those names that have a value. With a name go its key (`duration=`), its unit
 * (` minutes`) and the separator before it.
 *
 * @example
 * const line = parseLineTemplate("temperature={t}, duration={d}");
 * renderFilled(line, (name) => (name === "d" ? "5 minutes" : null)); // "duration=5 minutes"
 */
export function renderFilled(
  template: LineTemplate,
  fill: (name: string) => string | null,
): string {
  const { texts, names } = template;
  const cuts = texts.map((text, place) => cutText(text, place === 0, place === names.length));
  let line = cuts[0]!.separator;
  let isFirst = true;
  for (const [place, name] of names.entries()) {
    const value = fill(name);
    if (value === null) continue;
    if (!isFirst) line += cuts[place]!.separator;
    line += cuts[place]!.key + value + cuts[place + 1]!.unit;
    isFirst = false;
  }
  return line + cuts.at(-1)!.end;
}

interface TextCut {
  /** Goes with the name before it. */
  unit: string;
  separator: string;
  /** Goes with the name after it. */
  key: string;
  /** Stays at the end of the line. */
  end: string;
}

/** Splits the text between two names at its last comma, semicolon or the like. */
function cutText(text: string, isFirst: boolean, isLast: boolean): TextCut {
  if (isLast && !isFirst) {
    const unit = /^[^,;|/&\n.!?)\]}]*/.exec(text)![0];
    return { unit, separator: "", key: "", end: text.slice(unit.length) };
  }
  const sign = /\s*[=:]\s*$/.exec(text)?.[0] ?? "";
  const body = text.slice(0, text.length - sign.length);
  const before = /^(?:.*[,;|/&\n([{:=.]\s*|\s*)/s.exec(body)![0];
  const unit = isFirst || before.trim() === "" ? "" : /^[^,;|/&\n]*/.exec(before)![0];
  return {
    unit,
    separator: before.slice(unit.length),
    key: body.slice(before.length) + sign,
    end: "",
  };
}

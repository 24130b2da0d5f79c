/**
 * Columns that the slots of a prompt read, as types: of `{{ text }}`, `{{ text.title }}` and
 * `{{ text | upper }}` it is `text`. What may do without a column (`default`, `if`), what computes,
 * and templates with statements or comments are left to the check at run time.
 */
export type PromptColumns<Template> = Template extends
  | `${string}{%${string}`
  | `${string}{#${string}`
  ? never
  : SlotNames<Template>;

type SlotNames<Template, Found = never> = Template extends `${string}{{${infer Slot}}}${infer Rest}`
  ? SlotNames<Rest, Found | SlotName<Trimmed<Slot>>>
  : Found;

type SlotName<Slot> = Slot extends `${string}default${string}` | `${string}|d(${string}`
  ? never
  : Slot extends `${infer Path}|${string}`
    ? NameIn<FirstStep<Trimmed<Path>>>
    : NameIn<FirstStep<Slot>>;

type FirstStep<Path> = Path extends `${infer Name}.${string}`
  ? FirstStep<Name>
  : Path extends `${infer Name}[${string}`
    ? FirstStep<Name>
    : Path;

/** What a name does not hold. */
type Other = " " | "\n" | "(" | ")" | "'" | '"' | "+" | "-" | "*" | "/" | "~" | "%" | "=" | "{";

/** Names that no column can have. */
type Word = "" | `${number}` | "true" | "false" | "none" | "True" | "False" | "None";

type NameIn<Text> = Text extends Word | `${string}${Other}${string}` ? never : Text;

type Trimmed<Text> = Text extends
  | `${" " | "\n" | "-"}${infer Rest}`
  | `${infer Rest}${" " | "\n" | "-"}`
  ? Trimmed<Rest>
  : Text;

import { Argument, type Command, type Option } from "commander";
import { type CliIo, type CommandCall, write } from "../io.ts";

interface CompletedCommand {
  name: string;
  summary: string;
  /** Words that follow it, such as `pull` after `model`. */
  subcommands: { name: string; summary: string }[];
  options: { flags: string[]; description: string; choices: readonly string[] }[];
}

/** The parameters of a declared command. */
function completedCommand(command: Command): CompletedCommand {
  const ownOptions = [command, ...command.commands].flatMap((each) => each.options);
  const byFlag = new Map(ownOptions.map((option) => [option.long, option]));
  return {
    name: command.name(),
    summary: command.summary(),
    subcommands: [
      ...command.commands.map((each) => ({ name: each.name(), summary: each.description() })),
      ...(command.registeredArguments[0]?.argChoices ?? []).map((name) => ({ name, summary: "" })),
    ],
    options: [...byFlag.values()].map(optionOf),
  };
}

function optionOf({ long, short, description, argChoices }: Option) {
  const flags = [long, short].filter((flag) => typeof flag === "string");
  return { flags, description, choices: argChoices ?? [] };
}

/** How each shell loads the script; the key is the shell's name. */
const completionScripts = Object.freeze({ bash, zsh, fish });

const wordsOf = ({ options }: CompletedCommand) => options.flatMap(({ flags }) => flags).join(" ");

function bash(commands: readonly CompletedCommand[]): string {
  const cases = commands.map((command) => {
    const choices = command.options.flatMap(({ flags, choices }) =>
      choices.length === 0 ? [] : [`      ${flags.join("|")}) words="${choices.join(" ")}" ;;`],
    );
    const subcommands = command.subcommands.map(({ name }) => name).join(" ");
    return [
      `    ${command.name})`,
      `      [[ $cur == -* ]] && words="${wordsOf(command)} --help"`,
      ...(subcommands === "" ? [] : [`      (( COMP_CWORD == 2 )) && words="${subcommands}"`]),
      ...(choices.length === 0 ? [] : ['      case "$before" in', ...choices, "      esac"]),
      "      ;;",
    ].join("\n");
  });
  return `# sluice: source <(sluice completion bash)
_sluice() {
  local cur="\${COMP_WORDS[COMP_CWORD]}" before="\${COMP_WORDS[COMP_CWORD-1]}" words=""
  COMPREPLY=()
  if (( COMP_CWORD == 1 )); then
    words="${commands.map(({ name }) => name).join(" ")} help --version --help"
  else
    case "\${COMP_WORDS[1]}" in
${cases.join("\n")}
    esac
  fi
  # Where no word fits, files are completed.
  [[ -n $words ]] && COMPREPLY=($(compgen -W "$words" -- "$cur"))
}
complete -o default -F _sluice sluice
`;
}

/** A text within single quotes, one line, with colons as `_describe` needs them. */
const quoted = (text: string) => `'${text.replaceAll("\n", " ").replaceAll("'", "'\\''")}'`;
const described = (name: string, text: string) =>
  quoted(`${name.replaceAll(":", "\\:")}:${text.replaceAll(":", "\\:")}`);

function zsh(commands: readonly CompletedCommand[]): string {
  const cases = commands.map(({ name, subcommands, options }) => {
    const flags = options.flatMap(({ flags, description }) =>
      flags.map((flag) => described(flag, description)),
    );
    const words = subcommands.map((each) => described(each.name, each.summary));
    const choices = options.flatMap(({ flags, choices }) =>
      choices.length === 0 ? [] : [`        ${flags.join("|")}) values=(${choices.join(" ")}) ;;`],
    );
    return [
      `      ${name})`,
      `        options=(${[...flags, described("--help", "show help")].join(" ")})`,
      ...(words.length === 0 ? [] : [`        subcommands=(${words.join(" ")})`]),
      ...(choices.length === 0
        ? []
        : ["        case $words[CURRENT-1] in", ...choices, "        esac"]),
      "        ;;",
    ].join("\n");
  });
  return `#compdef sluice
# sluice: source <(sluice completion zsh), behind compinit
_sluice() {
  local -a commands options subcommands values
  commands=(${commands.map(({ name, summary }) => described(name, summary)).join(" ")})
  if (( CURRENT == 2 )); then
    _describe command commands
  else
    case $words[2] in
${cases.join("\n")}
    esac
    if (( $#values )); then
      compadd -a values
    elif [[ $words[CURRENT] == -* ]]; then
      _describe option options
    elif (( CURRENT == 3 && $#subcommands )); then
      _describe command subcommands
    else
      _files
    fi
  fi
}
compdef _sluice sluice
`;
}

function fish(commands: readonly CompletedCommand[]): string {
  const lines = ["# sluice: sluice completion fish | source"];
  for (const { name, summary, subcommands, options } of commands) {
    lines.push(`complete -c sluice -f -n __fish_use_subcommand -a ${name} -d ${quoted(summary)}`);
    const within = `-n '__fish_seen_subcommand_from ${name}'`;
    for (const each of subcommands) {
      lines.push(`complete -c sluice ${within} -a ${each.name} -d ${quoted(each.summary)}`);
    }
    for (const { flags, description, choices } of options) {
      const long = flags.find((flag) => flag.startsWith("--"));
      const short = flags.find((flag) => !flag.startsWith("--"));
      const words = [
        ...(long === undefined ? [] : [`-l ${long.slice(2)}`]),
        ...(short === undefined ? [] : [`-s ${short.slice(1)}`]),
        ...(choices.length === 0 ? [] : [`-x -a ${quoted(choices.join(" "))}`]),
      ];
      lines.push(`complete -c sluice ${within} ${words.join(" ")} -d ${quoted(description)}`);
    }
  }
  return `${lines.join("\n")}\n`;
}

const shells = Object.keys(completionScripts) as (keyof typeof completionScripts)[];

const help = `
For bash, in ~/.bashrc:                 source <(sluice completion bash)
For zsh, in ~/.zshrc behind compinit:   source <(sluice completion zsh)
For fish, in ~/.config/fish/config.fish: sluice completion fish | source`;

/** `sluice completion SHELL`: a script that makes the shell complete commands and options. */
export function register(command: Command, io: CliIo, { declareAll }: CommandCall): void {
  command
    .addArgument(new Argument("<shell>", "the shell").choices(shells))
    .addHelpText("after", help)
    .action(async (shell: keyof typeof completionScripts) => {
      const commands = (await declareAll()).map(completedCommand);
      await write(io, completionScripts[shell](commands));
    });
}

import { Argument, Command } from "commander";
import type { CommandEntry } from "../command.ts";
import {
  type CompletedCommand,
  completedCommand,
  completionScripts,
} from "../completion-scripts.ts";
import { type CliIo, write } from "../io.ts";

const shells = Object.keys(completionScripts) as (keyof typeof completionScripts)[];

const help = `
For bash, in ~/.bashrc:                 source <(sluice completion bash)
For zsh, in ~/.zshrc behind compinit:   source <(sluice completion zsh)
For fish, in ~/.config/fish/config.fish: sluice completion fish | source`;

/** `sluice completion SHELL`: what makes the shell complete commands and options. */
export function register(command: Command, io: CliIo, commands: readonly CommandEntry[]): void {
  command
    .addArgument(new Argument("<shell>", "the shell").choices(shells))
    .addHelpText("after", help)
    .action(async (shell: keyof typeof completionScripts) => {
      const known: CompletedCommand[] = [];
      for (const { name, summary, load } of commands) {
        const declared = new Command(name).summary(summary);
        await (await load()).register(declared, io, commands);
        known.push(completedCommand(declared));
      }
      await write(io, completionScripts[shell](known));
    });
}

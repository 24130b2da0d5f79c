import { Argument, type Command } from "commander";
import { completedCommand, completionScripts } from "../completion-scripts.ts";
import { type CliIo, type CommandCall, write } from "../io.ts";

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

// The logic of the extension, without VS Code: which command is run, and when the server restarts.
// `extension.ts` binds it to VS Code.

import { accessSync, constants, statSync } from "node:fs";
import { delimiter, join, resolve } from "node:path";

/** The user's settings; an empty text or null means that a setting is not set. */
export interface Settings {
  command: string;
  judge: string;
  minConfidence: number | null;
}

/** How to start the server. */
export interface Launch {
  command: string;
  args: string[];
  cwd: string | undefined;
  /** The same keys as in the project's settings, which have precedence. */
  initializationOptions: Record<string, unknown>;
}

/** A running server. */
export interface Server {
  stop(): Promise<void>;
}

/** What the logic needs from the editor. */
export interface Host {
  settings(): Settings;
  /** The folder in which relative paths of the settings start. */
  folder(): string | undefined;
  launch(launch: Launch): Promise<Server>;
  showError(message: string): void;
}

/** Return the full path of a command, or undefined if there is none. */
export function findCommand(
  command: string,
  folder: string | undefined,
  env: NodeJS.ProcessEnv = process.env,
  platform: string = process.platform,
): string | undefined {
  const isWindows = platform === "win32";
  const endings = isWindows ? ["", ...(env.PATHEXT ?? ".EXE;.CMD;.BAT").split(";")] : [""];
  const hasFolder = command.includes("/") || (isWindows && command.includes("\\"));
  const folders = hasFolder ? [folder ?? ""] : (env.PATH ?? "").split(delimiter).filter(Boolean);
  for (const each of folders) {
    for (const ending of endings) {
      const path = hasFolder ? resolve(each, command + ending) : join(each, command + ending);
      if (isProgram(path)) {
        return path;
      }
    }
  }
  return undefined;
}

function isProgram(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return statSync(path).isFile();
  } catch {
    return false;
  }
}

/** Return how to start the server, or undefined if its command is not found. */
export function launchOf(settings: Settings, folder: string | undefined): Launch | undefined {
  const command = findCommand(settings.command, folder);
  if (command === undefined) {
    return undefined;
  }
  const args = ["lsp"];
  if (settings.judge) {
    args.push("--judge", settings.judge);
  }
  const options: Record<string, unknown> = {};
  if (settings.minConfidence !== null) {
    options["min-confidence"] = settings.minConfidence;
  }
  return { command, args, cwd: folder, initializationOptions: options };
}

export function notFound(command: string): string {
  return (
    `Reviser: the command "${command}" was not found. Install it with: ` +
    `pip install 'reviser-lm[hf,editor]', or set reviser.command to its path.`
  );
}

/** The server of one window. Starts and stops happen one after the other. */
export class Session {
  private server: Server | undefined;
  private last: Promise<void> = Promise.resolve();

  constructor(private readonly host: Host) {}

  /** Start the server with the current settings; one that runs is stopped first. */
  restart(): Promise<void> {
    return this.queue(async () => {
      await this.end();
      const settings = this.host.settings();
      const launch = launchOf(settings, this.host.folder());
      if (launch === undefined) {
        this.host.showError(notFound(settings.command));
        return;
      }
      try {
        this.server = await this.host.launch(launch);
      } catch (error) {
        const words = [launch.command, ...launch.args].join(" ");
        this.host.showError(`Reviser: the server did not start (${words}): ${text(error)}`);
      }
    });
  }

  stop(): Promise<void> {
    return this.queue(() => this.end());
  }

  private queue(work: () => Promise<void>): Promise<void> {
    this.last = this.last.then(work);
    return this.last;
  }

  private async end(): Promise<void> {
    const server = this.server;
    this.server = undefined;
    try {
      await server?.stop();
    } catch {
      // It has ended by itself.
    }
  }
}

function text(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

// The extension as VS Code sees it: settings, commands and the language client.

import * as vscode from "vscode";
import { LanguageClient } from "vscode-languageclient/node";
import { type Host, type Launch, type Server, Session } from "./session.js";

const LANGUAGES = ["git-commit", "latex", "markdown", "plaintext", "restructuredtext"];

let session: Session | undefined;

export async function activate(context: vscode.ExtensionContext): Promise<void> {
  const own = new Session(host());
  session = own;
  context.subscriptions.push(
    vscode.commands.registerCommand("reviser.editor.fixAll", fixAll),
    vscode.commands.registerCommand("reviser.editor.restart", () => own.restart()),
    vscode.workspace.onDidChangeConfiguration(async (event) => {
      if (event.affectsConfiguration("reviser")) {
        await own.restart();
      }
    }),
  );
  await own.restart();
}

export async function deactivate(): Promise<void> {
  await session?.stop();
}

async function fixAll(): Promise<void> {
  // The server answers with one action of this kind, which accepts all suggestions.
  const action = { kind: "source.fixAll.reviser", apply: "first" };
  await vscode.commands.executeCommand("editor.action.codeAction", action);
}

function host(): Host {
  return {
    settings() {
      const found = vscode.workspace.getConfiguration("reviser");
      return {
        command: found.get<string>("command") || "reviser",
        judge: found.get<string>("judge") ?? "",
        minConfidence: found.get<number | null>("minConfidence") ?? null,
      };
    },
    folder: () => vscode.workspace.workspaceFolders?.[0]?.uri.fsPath,
    launch,
    showError(message) {
      void vscode.window.showErrorMessage(message, "Open Settings").then((choice) => {
        if (choice !== undefined) {
          void vscode.commands.executeCommand("workbench.action.openSettings", "reviser.");
        }
      });
    },
  };
}

async function launch({ command, args, cwd, initializationOptions }: Launch): Promise<Server> {
  const options = cwd === undefined ? {} : { cwd };
  const documentSelector = LANGUAGES.flatMap((language) => [
    { language, scheme: "file" },
    { language, scheme: "untitled" },
  ]);
  const client = new LanguageClient(
    "reviser",
    "Reviser",
    { command, args, options },
    { documentSelector, initializationOptions },
  );
  await client.start();
  return {
    stop: () => client.dispose(),
  };
}

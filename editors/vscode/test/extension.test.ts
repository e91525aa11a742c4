// The extension with a fake VS Code and a fake client: what package.json promises is there.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { activate, deactivate } from "../src/extension.js";
import { clients } from "./fake-client.js";
import * as vscode from "./fake-vscode.js";

const manifest = JSON.parse(readFileSync("package.json", "utf-8"));

test("the extension registers its commands, reads its settings and restarts", async () => {
  vscode.values["reviser.command"] = process.execPath;
  vscode.values["reviser.judge"] = "one";
  await activate({ subscriptions: [] } as never);

  const named = manifest.contributes.commands.map((each: { command: string }) => each.command);
  assert.deepEqual([...vscode.registered.keys()].sort(), named.sort());
  const properties = Object.keys(manifest.contributes.configuration.properties);
  assert.deepEqual([...vscode.read].sort(), properties.sort());
  const languages = clients[0]?.options.documentSelector.map((each) => (each as any).language);
  assert.deepEqual(
    new Set(languages?.map((each) => `onLanguage:${each}`)),
    new Set(manifest.activationEvents),
  );
  assert.deepEqual(clients[0]?.server.args, ["lsp", "--judge", "one"]);

  const [changed] = vscode.listeners;
  await changed?.({ affectsConfiguration: () => false });
  assert.equal(clients.length, 1);
  vscode.values["reviser.minConfidence"] = 0.4;
  await changed?.({ affectsConfiguration: (name) => name === "reviser" });
  assert.deepEqual(clients.map((each) => each.state), ["disposed", "started"]);
  assert.deepEqual(clients[1]?.options.initializationOptions, { "min-confidence": 0.4 });

  await vscode.registered.get("reviser.editor.fixAll")?.();
  assert.deepEqual(vscode.executed.at(-1)?.[1], { kind: "source.fixAll.reviser", apply: "first" });

  vscode.values["reviser.command"] = "missing-command";
  await vscode.registered.get("reviser.editor.restart")?.();
  assert.match(vscode.errors[0] ?? "", /"missing-command" was not found/);
  await deactivate();
  assert.deepEqual(clients.map((each) => each.state), ["disposed", "disposed"]);
});

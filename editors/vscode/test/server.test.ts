// The logic of the extension with a real `reviser lsp`, and with a real server whose model
// corrects one word (tests/support/correcting.py).

import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import { chmodSync, mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, join, resolve } from "node:path";
import { test } from "node:test";
import { pathToFileURL } from "node:url";
import {
  type ApplyWorkspaceEditParams,
  ApplyWorkspaceEditRequest,
  type CodeAction,
  CodeActionRequest,
  createProtocolConnection,
  type Diagnostic,
  DidChangeTextDocumentNotification,
  DidOpenTextDocumentNotification,
  ExitNotification,
  InitializedNotification,
  InitializeRequest,
  type InitializeResult,
  type ProtocolConnection,
  PublishDiagnosticsNotification,
  ShowMessageNotification,
  ShutdownRequest,
  StreamMessageReader,
  StreamMessageWriter,
  type TextEdit,
} from "vscode-languageserver-protocol/node";
import { type Host, type Launch, type Server, type Settings, Session } from "../src/session.js";

const ROOT = resolve("../..");
const python = process.env.PYTHON ?? "python";

/** A buffer, and the connection to the server that a session started for it. */
class Editor {
  connection!: ProtocolConnection;
  capabilities!: InitializeResult["capabilities"];
  process: ChildProcess | undefined;
  text = "";
  version = 0;
  diagnostics: Diagnostic[] = [];
  messages: string[] = [];
  errors: string[] = [];
  readonly folder = mkdtempSync(join(tmpdir(), "reviser-"));
  readonly uri = pathToFileURL(join(this.folder, "page.md")).toString();

  constructor(readonly settings: Partial<Settings>) {
    writeFileSync(join(this.folder, ".reviser.toml"), "delay = 0.05\n");
  }

  host(): Host {
    return {
      settings: () => ({
        command: "reviser",
        judge: "",
        minConfidence: null,
        ...this.settings,
      }),
      folder: () => this.folder,
      launch: (launch) => this.launch(launch),
      showError: (message) => this.errors.push(message),
    };
  }

  async launch({ command, args, cwd, initializationOptions }: Launch): Promise<Server> {
    const modules = [process.env.PYTHONPATH, join(ROOT, "src"), join(ROOT, "tests")];
    const env = {
      ...process.env,
      PYTHONPATH: modules.filter(Boolean).join(delimiter),
      XDG_CONFIG_HOME: this.folder,
    };
    const child = spawn(command, args, { cwd, env, stdio: ["pipe", "pipe", "inherit"] });
    this.process = child;
    const connection = createProtocolConnection(
      new StreamMessageReader(child.stdout),
      new StreamMessageWriter(child.stdin),
    );
    connection.onNotification(PublishDiagnosticsNotification.type, (params) => {
      this.diagnostics = params.diagnostics;
    });
    connection.onNotification(ShowMessageNotification.type, (params) => {
      this.messages.push(params.message);
    });
    connection.onRequest(ApplyWorkspaceEditRequest.type, (params: ApplyWorkspaceEditParams) => {
      this.apply(params.edit.changes?.[this.uri] ?? []);
      return { applied: true };
    });
    connection.listen();
    this.connection = connection;
    const answer = await connection.sendRequest(InitializeRequest.type, {
      processId: process.pid,
      rootUri: null,
      capabilities: {},
      initializationOptions,
    });
    this.capabilities = answer.capabilities;
    await connection.sendNotification(InitializedNotification.type, {});
    return {
      stop: async () => {
        await connection.sendRequest(ShutdownRequest.type);
        const ended = new Promise((done) => child.once("exit", done));
        await connection.sendNotification(ExitNotification.type);
        await ended;
        connection.dispose();
      },
    };
  }

  async open(text: string): Promise<void> {
    this.text = text;
    const textDocument = { uri: this.uri, languageId: "markdown", version: ++this.version, text };
    await this.connection.sendNotification(DidOpenTextDocumentNotification.type, { textDocument });
  }

  /** Apply edits of one line each, from the last to the first, and report the new text. */
  apply(edits: TextEdit[]): void {
    for (const { range, newText } of [...edits].reverse()) {
      const lines = this.text.split("\n");
      const line = lines[range.start.line] ?? "";
      assert.equal(range.start.line, range.end.line);
      lines[range.start.line] =
        line.slice(0, range.start.character) + newText + line.slice(range.end.character);
      this.text = lines.join("\n");
    }
    const textDocument = { uri: this.uri, version: ++this.version };
    const contentChanges = [{ text: this.text }];
    void this.connection.sendNotification(DidChangeTextDocumentNotification.type, {
      textDocument,
      contentChanges,
    });
  }

  async until(holds: () => boolean): Promise<void> {
    const end = Date.now() + 60_000;
    while (!holds()) {
      assert.ok(Date.now() < end, `nothing came: ${JSON.stringify([this.messages, this.errors])}`);
      await new Promise((done) => setTimeout(done, 20));
    }
  }
}

test("the command `reviser lsp` takes what the extension gives it", async () => {
  const editor = new Editor({ minConfidence: 0.5, judge: "/nowhere" });
  const session = new Session(editor.host());
  await session.restart();
  assert.deepEqual(editor.errors, []);
  const offered = editor.capabilities.executeCommandProvider?.commands ?? [];
  for (const command of ["reviser.addWord", "reviser.ignoreRule"]) {
    assert.ok(offered.includes(command), command);
  }
  await editor.open("A text.\n");
  await editor.until(() => editor.messages.length > 0); // without a judge, it says what to do
  assert.match(editor.messages[0] ?? "", /There is no folder/);
  await session.stop();
  assert.equal(editor.process?.exitCode, 0);
});

test("a value that the server refuses is shown", async () => {
  const editor = new Editor({ minConfidence: 2 });
  const session = new Session(editor.host());
  await session.restart();
  await editor.until(() => editor.messages.length > 0);
  assert.match(editor.messages[0] ?? "", /from 0 to 1/);
  await session.stop();
});

test("suggestions come and are accepted, and a restart works", async () => {
  // A command with rules and a judge of the tests.
  const script = join(mkdtempSync(join(tmpdir(), "reviser-")), "server");
  writeFileSync(script, `#!/bin/sh\nexec "${python}" -m support.judging "$@"\n`);
  chmodSync(script, 0o755);
  const editor = new Editor({ command: script });
  const session = new Session(editor.host());
  await session.restart();
  await editor.open("Ben was a boy.\n\nIt is teh end of `teh` page.\n");
  await editor.until(() => editor.diagnostics.length === 1);
  assert.deepEqual(editor.diagnostics[0]?.range.start, { line: 2, character: 6 });

  let actions: CodeAction[] = [];
  await editor.until(() => {
    void editor.connection
      .sendRequest(CodeActionRequest.type, {
        textDocument: { uri: editor.uri },
        range: { start: { line: 0, character: 0 }, end: { line: 3, character: 0 } },
        context: { diagnostics: [], only: ["source.fixAll.reviser"] },
      })
      .then((found) => {
        actions = (found ?? []) as CodeAction[];
      });
    return actions.length === 1;
  });
  editor.apply(actions[0]?.edit?.changes?.[editor.uri] ?? []);
  assert.equal(editor.text.split("\n")[2], "It is the end of `teh` page.");

  const first = editor.process;
  await session.restart();
  assert.equal(first?.exitCode, 0);
  editor.diagnostics = [];
  await editor.open("It is teh end.\n");
  await editor.until(() => editor.diagnostics.length === 1);
  await session.stop();
});

// The logic of the extension with a fake editor.

import assert from "node:assert/strict";
import { chmodSync, mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { findCommand, type Host, type Launch, launchOf, Session } from "../src/session.js";

const folder = mkdtempSync(join(tmpdir(), "reviser-"));
const program = join(folder, "tool");
writeFileSync(program, "#!/bin/sh\n");
chmodSync(program, 0o755);
writeFileSync(join(folder, "text"), "");
writeFileSync(join(folder, "other.exe"), "");
chmodSync(join(folder, "other.exe"), 0o755);

const settings = { command: program, judge: "", minConfidence: null };

/** Return a host that notes what happens to it. */
function fake(changed: Partial<Host> = {}): { host: Host; events: string[]; errors: string[] } {
  const events: string[] = [];
  const errors: string[] = [];
  let count = 0;
  const host: Host = {
    settings: () => settings,
    folder: () => folder,
    launch: async () => {
      const number = ++count;
      events.push(`start ${number}`);
      return {
        stop: async () => {
          await new Promise((resolve) => setTimeout(resolve, 20));
          events.push(`stop ${number}`);
        },
      };
    },
    showError: (message) => errors.push(message),
    ...changed,
  };
  return { host, events, errors };
}

test("a command is found on the path, by its path, and with Windows' endings", () => {
  const env = { PATH: `/nothing:${folder}` };
  assert.equal(findCommand("tool", undefined, env, "linux"), program);
  assert.equal(findCommand("text", undefined, env, "linux"), undefined); // it cannot be run
  assert.equal(findCommand("missing", undefined, env, "linux"), undefined);
  assert.equal(findCommand("./tool", folder, {}, "linux"), program);
  assert.equal(findCommand(program, undefined, {}, "linux"), program);
  assert.equal(findCommand("/", undefined, {}, "linux"), undefined); // a folder
  const windows = { ...env, PATHEXT: ".com;.exe" };
  assert.equal(findCommand("other", undefined, windows, "win32"), join(folder, "other.exe"));
  assert.equal(findCommand("other", undefined, windows, "linux"), undefined);
});

test("settings become options of the command, and what is not set is left out", () => {
  assert.deepEqual(launchOf(settings, folder), {
    command: program,
    args: ["lsp"],
    cwd: folder,
    initializationOptions: {},
  } satisfies Launch);
  const all = { ...settings, judge: "m", minConfidence: 0 };
  const launch = launchOf(all, undefined);
  assert.deepEqual(launch?.args, ["lsp", "--judge", "m"]);
  assert.deepEqual(launch?.initializationOptions, { "min-confidence": 0 });
});

test("a missing command is reported with what to do", async () => {
  const { host, events, errors } = fake({ settings: () => ({ ...settings, command: "missing" }) });
  const session = new Session(host);
  await session.restart();
  assert.deepEqual(events, []);
  assert.match(errors[0] ?? "", /"missing" was not found.*pip install.*reviser\.command/);
});

test("a server that does not start is reported with its command", async () => {
  const { host, errors } = fake({ launch: () => Promise.reject(new Error("no such option")) });
  await new Session(host).restart();
  assert.match(errors[0] ?? "", /did not start \(.*tool lsp\): no such option/);
});

test("changes of settings restart the server, one server at a time", async () => {
  const { host, events } = fake();
  const session = new Session(host);
  await Promise.all([session.restart(), session.restart(), session.restart()]);
  await session.stop();
  assert.deepEqual(events, ["start 1", "stop 1", "start 2", "stop 2", "start 3", "stop 3"]);
});

test("a server that fails to stop does not keep the next one from starting", async () => {
  let count = 0;
  const { host, errors } = fake({
    launch: async () => {
      count += 1;
      return { stop: () => Promise.reject(new Error("it has crashed")) };
    },
  });
  const session = new Session(host);
  await session.restart();
  await session.restart();
  assert.equal(count, 2);
  assert.deepEqual(errors, []);
});

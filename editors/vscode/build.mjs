// Bundle the extension, and the tests, into out/.
import { copyFileSync, rmSync } from "node:fs";
import { build } from "esbuild";

const common = {
  bundle: true,
  format: "cjs",
  platform: "node",
  target: "node20",
  external: ["vscode"],
  logLevel: "warning",
};

copyFileSync("../../LICENSE", "LICENSE");
rmSync("out", { recursive: true, force: true });
await build({ ...common, entryPoints: ["src/extension.ts"], outfile: "out/extension.js", minify: true });
await build({
  ...common,
  entryPoints: ["test/extension.test.ts", "test/server.test.ts", "test/session.test.ts"],
  outdir: "out/test",
  alias: { vscode: "./test/fake-vscode.ts", "vscode-languageclient/node": "./test/fake-client.ts" },
});

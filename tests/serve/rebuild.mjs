// Reads {"url", "requests": [[path, body], ...]} and answers a line for each: what was rebuilt.
import { readFileSync } from "node:fs";

const { client, url, requests, atOnce } = JSON.parse(readFileSync(0, "utf8"));
const { Client } = await import(client);
const server = new Client({ url });
const results = new Array(requests.length);
let next = 0;

async function work() {
  while (next < requests.length) {
    const n = next++;
    const [path, body] = requests[n];
    const stream = await server.begin(path, body);
    let edits = 0;
    for await (const edit of stream) {
      edits += 1;
      if (edit.step !== edits) throw new Error(`step ${edit.step} after ${edits - 1}`);
    }
    const { text, cursor, rollout } = stream;
    results[n] = { text, cursor, edits, theirs: rollout.text, actions: rollout.trajectory.restoration };
  }
}

await Promise.all(Array.from({ length: atOnce }, work));
for (const result of results) console.log(JSON.stringify(result));

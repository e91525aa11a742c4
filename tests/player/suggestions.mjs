// Runs suggestions.js on cases from stdin: {module, formats: [...], edits: [...], merges: [...]}.
import { readFileSync } from "node:fs";

const { module, formats, edits, merges } = JSON.parse(readFileSync(0, "utf8"));
const { criticmarkup, editBetween, follow, merged, revisionOf, unified } = await import(module);
const written = formats.map(({ text, suggestions }) => {
  const revision = revisionOf(text, suggestions);
  return { ...revision, criticmarkup: criticmarkup(revision), unified: unified(revision) };
});
const followed = edits.map(({ before, after, caret, suggestions }) => {
  const edit = editBetween(before, after, caret);
  return { edit, suggestions: follow(suggestions, edit, after) };
});
const united = merges.map(({ all, later, least }) => merged(all, later, least));
console.log(JSON.stringify({ written, followed, united }));

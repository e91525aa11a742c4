// Checks locks.js against one flag per UTF-16 unit, then follows the edits that it reads from stdin.
import { readFileSync } from "node:fs";

const { module, cases } = JSON.parse(readFileSync(0, "utf8"));
const { change, follow, isLocked, lock, open, unlock } = await import(module);
let seed = 7;
const pick = (below) => {
  seed = (seed * 1103515245 + 12345) % 2147483648;
  return Math.floor((seed / 2147483648) * below);
};
const LETTERS = ["a", "b", "😀", "😁", "\n"];
const some = (most) => Array.from({ length: pick(most) }, () => LETTERS[pick(5)]).join("");
const flags = (locks, length) => Array.from({ length }, (_, n) => isLocked(locks, n, n + 1));
const isApart = (locks) =>
  locks.every(([low, high], n) => low < high && (n === 0 || locks[n - 1][1] < low));
const whole = (text, at) => {
  while (/[\udc00-\udfff]/.test(text[at] ?? "")) at--;
  return at;
};
const wrong = [];
const check = (is, ...what) => { if (!is) wrong.push(what); };
for (let round = 0; round < 3000; round++) {
  const before = some(12);
  const position = () => whole(before, pick(before.length + 1));
  let locks = [];
  let expected = flags([], before.length);
  for (let n = 0; n < 4; n++) {
    const [start, end] = [position(), position()].sort((a, b) => a - b);
    const isLock = pick(3) > 0;
    locks = (isLock ? lock : unlock)(locks, start, end);
    expected = expected.map((was, m) => (start <= m && m < end ? isLock : was));
    check(isApart(locks), "apart", locks);
    check(`${flags(locks, before.length)}` === `${expected}`, "flags", locks, expected);
  }
  const spans = open(locks, before.length);
  const opened = expected.map((_, n) => spans.some(([a, b]) => a <= n && n < b));
  check(opened.every((is, n) => is !== expected[n]), "open", locks, spans);
  check(isApart(spans), "open apart", locks, spans);
  // Typed text is locked if it is inside one lock.
  const [start, end] = [position(), position()].sort((a, b) => a - b);
  const put = some(4);
  const inside = locks.some(([low, high]) => low < start && end < high);
  const after = before.slice(0, start) + put + before.slice(end);
  const followed = follow(locks, { start, end, size: put.length });
  const wanted = [...expected.slice(0, start), ...Array(put.length).fill(inside),
    ...expected.slice(end)];
  check(isApart(followed), "followed", locks, start, end, put);
  check(`${flags(followed, after.length)}` === `${wanted}`, "follow", locks, start, end, put);
  // The edit is found again from the two texts and the caret.
  const found = change(before, after, start + put.length);
  const again = before.slice(0, found.start)
    + after.slice(found.start, found.start + found.size) + before.slice(found.end);
  check(again === after, "change", before, after, found);
  check(found.start >= start && found.end <= end, "shortest", before, after, found);
  check(whole(before, found.start) === found.start && whole(before, found.end) === found.end
    && whole(after, found.start + found.size) === found.start + found.size, "pair", found);
  check((found.size === put.length && found.start === start) || start < end, "typed", found);
}
const followed = cases.map(({ locks, edit }) => follow(locks, edit));
console.log(JSON.stringify({ wrong: wrong.slice(0, 3), followed }));

// Stretches of a text that stay as they are: pairs [start, end] of UTF-16 units, in order and apart.
// Knows no page. Every function gives new stretches and leaves the old ones alone.

/** With one more; those that touch become one. */
export function lock(locks, start, end) {
  if (start >= end) return locks;
  const apart = locks.filter(([low, high]) => high < start || low > end);
  const joined = locks.filter(([low, high]) => high >= start && low <= end);
  const low = Math.min(start, ...joined.map((each) => each[0]));
  const high = Math.max(end, ...joined.map((each) => each[1]));
  return [...apart, [low, high]].sort((one, other) => one[0] - other[0]);
}

/** Without what is between two places. */
export function unlock(locks, start, end) {
  if (start >= end) return locks;
  return locks
    .flatMap(([low, high]) => [[low, Math.min(high, start)], [Math.max(low, end), high]])
    .filter(([low, high]) => low < high);
}

/** Whether all between two places is locked. */
export function isLocked(locks, start, end) {
  return locks.some(([low, high]) => low <= start && end <= high);
}

/** What is open: the stretches between, before and behind. */
export function open(locks, length) {
  const edges = [0, ...locks.flat(), length];
  const spans = [];
  for (let n = 0; n < edges.length; n += 2) spans.push([edges[n], edges[n + 1]]);
  return spans.filter(([start, end]) => start < end);
}

/** After the text between two places was changed into `size` units. What is typed inside a stretch
 *  is locked with it; what is typed at its edge, or over it, is open. */
export function follow(locks, { start, end, size }) {
  const grown = size - (end - start);
  return locks
    .map(([low, high]) => [
      low < start ? low : low < end ? start + size : low + grown,
      high <= start ? high : high <= end ? start : high + grown,
    ])
    .reduce((all, [low, high]) => lock(all, low, high), []); // what was between may be gone
}

/** What was changed, given where the caret is now: behind what was put in. */
export function change(before, after, caret) {
  let tail = 0;
  const most = Math.min(before.length, after.length - caret);
  while (tail < most && before.at(-1 - tail) === after.at(-1 - tail)) tail++;
  let start = 0;
  const least = Math.min(before.length, after.length) - tail;
  while (start < least && before[start] === after[start]) start++;
  if (isInside(before, start) || isInside(after, start)) start--;
  if (isInside(before, before.length - tail) || isInside(after, after.length - tail)) tail--;
  return { start, end: before.length - tail, size: after.length - tail - start };
}

/** Whether a place is between the two units of one character. */
function isInside(text, place) {
  return /[\ud800-\udbff]/.test(text[place - 1] ?? "") && /[\udc00-\udfff]/.test(text[place] ?? "");
}

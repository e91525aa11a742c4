// The choice of an action from logits, with the same random numbers as the Python engine, so that
// a seed gives the same text in both, up to the last digits of a logit.

/** Return the index of an allowed id, chosen by the settings and a random number in 0..1.
 *  `isAllowed[id]` says which ids may be chosen. */
export function choose(logits, isAllowed, { temperature, topK, topP }, draw) {
  const ids = [];
  for (let id = 0; id < isAllowed.length; id++) if (isAllowed[id]) ids.push(id);
  if (temperature === 0) return ids.reduce((best, id) => (logits[id] > logits[best] ? id : best));
  ids.sort((one, other) => logits[other] - logits[one] || one - other); // most likely first
  const kept = ids.slice(0, topK || ids.length);
  // In the order and precision of reviser/engines/logits.py.
  const heat = Math.fround(temperature);
  const scaled = kept.map((id) => Math.fround(logits[id] / heat));
  const weights = scaled.map((value) => Math.exp(value - scaled[0]));
  const total = weights.reduce((sum, weight) => sum + weight, 0);
  const sums = [];
  let before = 0;
  for (const weight of weights) {
    if (before >= Math.fround(topP)) break;
    before += weight / total;
    sums.push(before);
  }
  const goal = draw * before;
  const chosen = sums.findIndex((sum) => sum > goal);
  return kept[chosen < 0 ? sums.length - 1 : chosen];
}

/** Return the log-probability of an id among all ids, before mask and temperature. */
export function logprobOf(logits, id) {
  let highest = -Infinity;
  for (const value of logits) if (value > highest) highest = value;
  let total = 0;
  for (const value of logits) total += Math.exp(value - highest);
  return logits[id] - highest - Math.log(total);
}

const MASK = (1n << 64n) - 1n;
const MULTIPLIERS = [0xd2e7470ee14c6c93n, 0xca5a826395121157n];
const WEYL = [0x9e3779b97f4a7c15n, 0xbb67ae8584caa73bn];

/** The random numbers of a seed: NumPy's Philox generator, 4x64 with 10 rounds. */
export class Philox {
  constructor(seed) {
    this.key = BigInt(seed) & MASK;
    this.count = 0n;
    this.rest = [];
  }

  /** Return the next number in 0..1. */
  random() {
    if (this.rest.length === 0) {
      this.count += 1n;
      this.rest = rounds([this.count, 0n, 0n, 0n], [this.key, 0n]);
    }
    return Number(this.rest.shift() >> 11n) / 2 ** 53;
  }
}

function rounds(counter, key) {
  let [a, b, c, d] = counter;
  let [k0, k1] = key;
  for (let n = 0; n < 10; n++) {
    const left = MULTIPLIERS[0] * a;
    const right = MULTIPLIERS[1] * c;
    [a, b, c, d] = [(right >> 64n) ^ b ^ k0, right & MASK, (left >> 64n) ^ d ^ k1, left & MASK];
    [k0, k1] = [(k0 + WEYL[0]) & MASK, (k1 + WEYL[1]) & MASK];
  }
  return [a, b, c, d];
}

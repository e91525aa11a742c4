// The user's dictionary: words that are never changed. The browser keeps them for this address.

const KEY = "reviser-words"; // in localStorage
let kept = []; // where a browser forbids storage

export function words() {
  try {
    const saved = JSON.parse(localStorage.getItem(KEY));
    return Array.isArray(saved) ? saved.filter((word) => typeof word === "string") : [];
  } catch {
    return kept;
  }
}

export function setWords(some) {
  kept = some;
  try {
    localStorage.setItem(KEY, JSON.stringify(some));
  } catch { /* then only this page keeps them */ }
}

// Small helpers of the playground's modules.

export const $ = (id) => document.getElementById(id);

/** Return a new element; what a model wrote becomes its text, never markup. */
export function element(tag, looks = "", ...content) {
  const made = document.createElement(tag);
  if (looks) made.className = looks;
  made.append(...content);
  return made;
}

/** Return a button that does something. */
export function button(looks, label, act) {
  const made = element("button", looks, label);
  made.type = "button";
  made.addEventListener("click", act);
  return made;
}

export const several = (count, what) => `${count} ${what}${count === 1 ? "" : "s"}`;

/** Let screen readers say something. */
export function announce(words) {
  $("live").textContent = words;
}

import { element } from "./dom.js";
import { Reel, runs } from "./edits.js";

// The document: a plain textarea, so that undo, input methods and screen readers work, on top of a
// sheet that has the same text, transparent, with colours, marks and the cursor of the model.

const SHADES = 10;

export class Surface {
  /** `marksOf` returns the marks to draw on a text, in order and apart from each other:
   *  {start, end, looks, key}; one without text is drawn as a point. */
  constructor(area, sheet, marksOf) {
    this.area = area;
    this.sheet = sheet;
    this.marksOf = marksOf;
    this.begin({ text: "", cursor: 0 });
  }

  get state() {
    return this.reel.at(this.step);
  }

  get text() {
    return this.state.text;
  }

  /** Show a text of the user's. */
  set(text) {
    this.begin({ text, cursor: text.length });
    this.isWriting = false;
    this.draw();
  }

  /** Begin to show a text that the model is writing. */
  begin({ text, cursor }) {
    this.reel = new Reel({ text, cursor });
    this.late = new Set(); // steps that inserted text before what the model had written earlier
    this.step = 0;
    this.isWriting = true;
  }

  /** Add one edit; call `draw` to show it. */
  take(edit) {
    const next = this.reel.last.ids[edit.offset + edit.removed.length];
    if (edit.inserted && this.reel.written[next] >= 0) this.late.add(this.reel.length);
    this.reel.append({ edit });
    this.step = this.reel.length;
  }

  end() {
    this.isWriting = false;
    this.draw();
  }

  /** Show the text after so many steps. */
  seek(step) {
    this.step = step;
    this.draw();
  }

  /** Draw text and sheet; the sheet is as tall as the text and gives the textarea its height. */
  draw() {
    const { text, cursor } = this.state;
    if (this.area.value !== text) this.area.value = text;
    const marks = this.reel.length ? [] : this.marksOf(text);
    const isMoving = this.isWriting || this.step < this.reel.length;
    const cuts = new Map(marks.flatMap(({ start, end }) => [[start, true], [end, true]]));
    if (isMoving) cuts.set(cursor, true);
    const nodes = [];
    let next = 0;
    /** Add what stands between two units: points, and the model's cursor. */
    const addPoints = (at) => {
      for (; marks[next]?.end <= at; next++) {
        if (marks[next].start === marks[next].end) nodes.push(marked("i", marks[next], ""));
      }
      if (isMoving && at === cursor) nodes.push(element("i", "cursor"));
    };
    for (const { start, text: part, looks } of runs(this.state, (id) => this.look(id), cuts)) {
      addPoints(start);
      const mark = marks[next]?.start <= start ? marks[next] : null;
      nodes.push(mark ? marked("span", mark, part) : element("span", looks, part));
    }
    addPoints(text.length);
    this.sheet.replaceChildren(...nodes, "\u200b"); // gives a last empty line its height
  }

  /** Return the classes of a unit, by the step that wrote it. */
  look(id) {
    const step = this.reel.written[id];
    if (step < 0) return "";
    const shade = Math.floor((SHADES * step) / this.reel.length);
    return `order${shade}${this.late.has(step) ? " late" : ""}`;
  }
}

function marked(tag, { looks, key }, text) {
  const made = element(tag, looks, text);
  if (key !== undefined) made.dataset.key = key;
  return made;
}

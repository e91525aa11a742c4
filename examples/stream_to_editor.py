"""Show each edit in an editor as it happens: python examples/stream_to_editor.py [PROMPT] [MODEL].

An edit has an offset, the text it removes and the text it inserts, which is what every editor
widget can apply. This one is Tk's, because it comes with Python.
"""

import sys
import tkinter as tk

import reviser


def apply(widget: tk.Text, edit: reviser.TextEdit) -> None:
    """Apply one edit to a Tk text widget, and put its cursor where the model's is."""
    start = f"1.0 + {edit.offset} chars"
    widget.delete(start, f"1.0 + {edit.offset + len(edit.removed)} chars")
    widget.insert(start, edit.inserted)
    widget.mark_set("insert", f"1.0 + {edit.cursor} chars")


def main(prompt: str = "Ben had a red ball.", model: str = "models/stories-revise") -> None:
    window = tk.Tk()
    widget = tk.Text(window, wrap="word")
    widget.pack(fill="both", expand=True)
    with reviser.load(model) as opened:
        writing = opened.stream(reviser.Continue(prompt), seed=7, max_actions=60)
        widget.insert("1.0", writing.text)
        for edit in writing:
            apply(widget, edit)
            window.update()
    window.mainloop()


if __name__ == "__main__":
    main(*sys.argv[1:])

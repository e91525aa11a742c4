"""What the language server costs in an editor, and a recording of it."""

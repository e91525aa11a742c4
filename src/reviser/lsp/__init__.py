"""The language server: suggestions of a model in any editor, over the Python API."""

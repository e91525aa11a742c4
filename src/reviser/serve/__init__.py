"""Writing over HTTP: JSON, and edits as they happen."""

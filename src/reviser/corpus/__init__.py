"""Tasks over a corpus: many files of documents, in chunks that any scheduler can run."""

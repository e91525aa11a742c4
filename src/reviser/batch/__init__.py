"""Batch jobs: one file or a hundred million documents, here, on Ray or in parts."""

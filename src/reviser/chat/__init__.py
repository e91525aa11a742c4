"""Edits by any chat model: it writes the sentences that change, and no others."""

"""The HTTP server and its clients: tasks in as JSON, texts or streams of edits out."""

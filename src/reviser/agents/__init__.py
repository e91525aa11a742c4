"""The MCP server: tools with which an agent asks a model for edits, over the Python API."""

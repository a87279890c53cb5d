"""The Model Context Protocol server: what assistants may read and do, through the HTTP interface's own routes."""

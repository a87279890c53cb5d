"""Handlers in child processes, which can be stopped, limited and measured."""

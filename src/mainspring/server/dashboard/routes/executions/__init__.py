"""The list of executions and the page of one."""

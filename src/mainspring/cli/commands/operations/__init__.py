"""The running processes: what waits where, what is wrong, what changed, who did it."""

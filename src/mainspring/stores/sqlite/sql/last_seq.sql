SELECT max(seq) FROM mainspring_executions

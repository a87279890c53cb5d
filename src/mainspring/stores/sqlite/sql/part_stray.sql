-- The condition of the index mainspring_executions_stray, word for word.
execution.stray = 1

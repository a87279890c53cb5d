-- Exactly the condition of the index mainspring_executions_stray.
execution.stray = 1

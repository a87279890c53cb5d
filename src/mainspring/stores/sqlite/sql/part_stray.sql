-- The condition of the index mainspring_executions_stray, word for word.
substr(execution.id, 1, 13) NOT BETWEEN
    printf('%08x-%04x', max(created / 1000 - 600000, 0) >> 16, max(created / 1000 - 600000, 0) & 65535)
    AND printf('%08x-%04x', max(created / 1000 + 600000, 0) >> 16, max(created / 1000 + 600000, 0) & 65535)

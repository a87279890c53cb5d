-- Ids begin with their time, so executions created in a range of time lie in a range of ids, give or take ten minutes.
-- The exceptions (a tick made up for late) are listed here, by the time they were created.
CREATE INDEX mainspring_executions_stray ON mainspring_executions (created, id) WHERE stray = 1;

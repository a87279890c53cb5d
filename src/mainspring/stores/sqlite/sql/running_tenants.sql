SELECT execution.tenant, count(*)
FROM mainspring_live AS live INDEXED BY mainspring_live_lease
CROSS JOIN mainspring_executions AS execution ON execution.seq = live.seq
WHERE live.phase = 2 AND execution.tenant IS NOT NULL
GROUP BY execution.tenant

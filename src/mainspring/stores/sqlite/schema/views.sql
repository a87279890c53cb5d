-- Views for reporting: read-only, with the columns of PostgreSQL's, which stay as they are across releases. Instants
-- are ISO 8601 texts, UTC; `started_us` is the start as it is stored, in microseconds: an index serves it, and one of
-- the text would cost every execution 2 microseconds. `due` is NULL for a job that does not tick, and the end of the
-- pause for a paused one: see Job.due.

CREATE VIEW mainspring_view_jobs AS
SELECT
    j.name AS job_name,
    json_extract(json_patch(j.declared, j.overrides), '$.handler') AS handler,
    coalesce(json_extract(json_patch(j.declared, j.overrides), '$.queue'), 'default') AS queue,
    coalesce(json_extract(json_patch(j.declared, j.overrides), '$.priority'), 0) AS priority,
    json_extract(j.declared, '$.trigger') AS trigger,
    json_extract(json_patch(j.declared, j.overrides), '$.description') AS description,
    coalesce(json_extract(json_patch(j.declared, j.overrides), '$.enabled'), 1) AS enabled,
    coalesce(json_extract(json_patch(j.declared, j.overrides), '$.max_attempts'), 10) AS max_attempts,
    j.origin,
    j.release,
    j.version,
    j.paused IS NOT NULL AS paused,
    j.paused_by,
    j.cancelled IS NOT NULL AS cancelled,
    CASE WHEN j.paused IS NULL AND j.due IS NOT NULL THEN
        strftime('%Y-%m-%dT%H:%M:%S', j.next_run / 1000000, 'unixepoch') || printf('.%06dZ', j.next_run % 1000000)
    END AS next_run_at,
    strftime('%Y-%m-%dT%H:%M:%S', j.last_tick / 1000000, 'unixepoch') || printf('.%06dZ', j.last_tick % 1000000)
        AS last_tick_at,
    coalesce(i.last_number, 0) AS last_number,
    t.last_state AS last_status,
    strftime('%Y-%m-%dT%H:%M:%S', t.last_finished / 1000000, 'unixepoch') || printf('.%06dZ', t.last_finished % 1000000)
        AS last_finished_at,
    coalesce(t.completed, 0) AS completed,
    coalesce(t.partial, 0) AS partial,
    coalesce(t.failed, 0) AS failed,
    coalesce(t.cancelled, 0) AS cancelled_count,
    coalesce(t.skipped, 0) AS skipped,
    strftime('%Y-%m-%dT%H:%M:%S', j.created / 1000000, 'unixepoch') || printf('.%06dZ', j.created % 1000000)
        AS created_at,
    strftime('%Y-%m-%dT%H:%M:%S', j.updated / 1000000, 'unixepoch') || printf('.%06dZ', j.updated % 1000000)
        AS updated_at
FROM mainspring_jobs j
LEFT JOIN mainspring_incarnations i ON i.job_id = j.id
LEFT JOIN mainspring_totals t ON t.job_id = j.id;

CREATE VIEW mainspring_view_job_executions AS
SELECT
    x.id AS execution_id,
    x.job AS job_name,
    json_extract(x.body, '$.handler') AS handler,
    coalesce(json_extract(x.body, '$.queue'), 'default') AS queue,
    coalesce(nullif(json_extract(x.body, '$.trace_id'), ''), replace(x.id, '-', '')) AS trace_id,
    x.status,
    coalesce(json_extract(x.body, '$.trigger'), 'enqueue') AS trigger_type,
    coalesce(json_extract(x.body, '$.triggered_by'), 'system') AS triggered_by,
    json_extract(x.body, '$.number') AS number,
    coalesce(json_extract(x.body, '$.params'), '{}') AS params,
    x.tenant,
    x.parent_id,
    strftime('%Y-%m-%dT%H:%M:%S', json_extract(x.body, '$.tick') / 1000000, 'unixepoch')
        || printf('.%06dZ', json_extract(x.body, '$.tick') % 1000000) AS scheduled_at,
    strftime('%Y-%m-%dT%H:%M:%S', json_extract(x.body, '$.window_begin') / 1000000, 'unixepoch')
        || printf('.%06dZ', json_extract(x.body, '$.window_begin') % 1000000) AS window_begin,
    strftime('%Y-%m-%dT%H:%M:%S', json_extract(x.body, '$.window_end') / 1000000, 'unixepoch')
        || printf('.%06dZ', json_extract(x.body, '$.window_end') % 1000000) AS window_end,
    coalesce(json_extract(x.body, '$.priority'), 0) AS priority,
    max(coalesce(json_extract(x.tail, '$.failures'), 0) + (x.status <> 'failed'), 1) AS attempt,
    coalesce(json_extract(json_extract(x.body, '$.policy'), '$.max_attempts'), 10) AS max_attempts,
    json_extract(x.tail, '$.reason') AS reason,
    json_extract(x.tail, '$.error') AS error_message,
    json_extract(x.tail, '$.result_json') AS result,
    json_extract(x.tail, '$.counters_json') AS counters,
    json_extract(x.tail, '$.metadata_json') AS metadata,
    CASE WHEN x.tenant IS NULL AND json_extract(json_extract(x.body, '$.policy'), '$.fan_out') IS NOT NULL
    THEN coalesce(
        json_extract(json_extract(x.tail, '$.result_json'), '$.total'),
        (SELECT count(*) FROM mainspring_history c WHERE c.parent_id = x.id)
        + (SELECT count(*) FROM mainspring_live c WHERE c.parent_id = x.id)
    ) END AS tenants_total,
    CASE WHEN x.tenant IS NULL AND json_extract(json_extract(x.body, '$.policy'), '$.fan_out') IS NOT NULL
    THEN coalesce(
        json_extract(json_extract(x.tail, '$.result_json'), '$.success'),
        (SELECT count(*) FROM mainspring_history c WHERE c.parent_id = x.id AND c.state = 'completed')
    ) END AS tenants_success,
    CASE WHEN x.tenant IS NULL AND json_extract(json_extract(x.body, '$.policy'), '$.fan_out') IS NOT NULL
    THEN coalesce(
        json_extract(json_extract(x.tail, '$.result_json'), '$.failed'),
        (SELECT count(*) FROM mainspring_history c WHERE c.parent_id = x.id AND c.state NOT IN ('completed', 'skipped'))
    ) END AS tenants_failed,
    strftime('%Y-%m-%dT%H:%M:%S', x.created / 1000000, 'unixepoch') || printf('.%06dZ', x.created % 1000000)
        AS created_at,
    strftime('%Y-%m-%dT%H:%M:%S', x.started / 1000000, 'unixepoch') || printf('.%06dZ', x.started % 1000000)
        AS started_at,
    strftime('%Y-%m-%dT%H:%M:%S', x.finished / 1000000, 'unixepoch') || printf('.%06dZ', x.finished % 1000000)
        AS finished_at,
    (x.finished - x.started) / 1000.0 AS duration_ms,
    x.worker,
    x.started AS started_us
FROM (
    SELECT e.id, i.job, l.started, e.tenant, e.parent_id, 'running' AS status, e.body, l.tail, e.created,
        NULL AS finished, l.owner AS worker
    FROM mainspring_live l JOIN mainspring_executions e ON e.seq = l.seq
        JOIN mainspring_incarnations i ON i.job_id = l.job_id
    WHERE l.phase = 2
    UNION ALL
    SELECT e.id, i.job, l.started, e.tenant, e.parent_id, 'waiting' AS status, e.body, l.tail, e.created,
        NULL AS finished, json_extract(json_extract(l.tail, '$.attempts_json'), '$[#-1].worker') AS worker
    FROM mainspring_live l JOIN mainspring_executions e ON e.seq = l.seq
        JOIN mainspring_incarnations i ON i.job_id = l.job_id
    WHERE l.phase = 3
    UNION ALL
    SELECT e.id, i.job, l.started, e.tenant, e.parent_id, 'pending' AS status, e.body, l.tail, e.created,
        NULL AS finished, json_extract(json_extract(l.tail, '$.attempts_json'), '$[#-1].worker') AS worker
    FROM mainspring_live l JOIN mainspring_executions e ON e.seq = l.seq
        JOIN mainspring_incarnations i ON i.job_id = l.job_id
    WHERE l.phase IN (0, 1, 4)
    UNION ALL
    SELECT e.id, i.job, h.started, e.tenant, e.parent_id, h.state AS status, e.body, h.tail, e.created,
        h.finished AS finished, json_extract(h.attempts, '$[#-1].worker') AS worker
    FROM mainspring_history h JOIN mainspring_executions e ON e.seq = h.seq
        JOIN mainspring_incarnations i ON i.job_id = e.job_id
) x;

-- One row per tenant of a run: executions that have both a tenant and a parent.
CREATE VIEW mainspring_view_tenant_executions AS
SELECT execution_id, parent_id AS parent_execution_id, tenant, job_name, trace_id, status, trigger_type, attempt,
    max_attempts, error_message, started_at, finished_at, duration_ms, window_begin, window_end, worker, started_us
FROM mainspring_view_job_executions
WHERE tenant IS NOT NULL AND parent_id IS NOT NULL;

-- Named locks, and the keys that live executions hold: `overlap` keeps other executions of the job from running,
-- `unique` keeps others with the same key from being enqueued.
CREATE VIEW mainspring_view_locks AS
SELECT x.name, x.owner, x.token,
    strftime('%Y-%m-%dT%H:%M:%S', x.since / 1000000, 'unixepoch') || printf('.%06dZ', x.since % 1000000)
        AS acquired_at,
    strftime('%Y-%m-%dT%H:%M:%S', x.until / 1000000, 'unixepoch') || printf('.%06dZ', x.until % 1000000)
        AS expires_at,
    x.kind, x.job_name, x.execution_id, x.status
FROM (
    SELECT name, owner, token, acquired AS since, expires AS until, 'lock' AS kind, NULL AS job_name,
        NULL AS execution_id, NULL AS status
    FROM mainspring_locks
    WHERE expires > CAST(strftime('%s', 'now') AS INTEGER) * 1000000
    UNION ALL
    SELECT l.overlap_key, l.owner, l.token, coalesce(l.started, e.created), l.lease, 'overlap', i.job, l.id,
        CASE l.phase WHEN 2 THEN 'running' WHEN 3 THEN 'waiting' ELSE 'pending' END
    FROM mainspring_live l JOIN mainspring_executions e ON e.seq = l.seq
        JOIN mainspring_incarnations i ON i.job_id = l.job_id
    WHERE l.overlap_key IS NOT NULL
    UNION ALL
    SELECT l.unique_key, l.owner, l.token, coalesce(l.started, e.created), l.lease, 'unique', i.job, l.id,
        CASE l.phase WHEN 2 THEN 'running' WHEN 3 THEN 'waiting' ELSE 'pending' END
    FROM mainspring_live l JOIN mainspring_executions e ON e.seq = l.seq
        JOIN mainspring_incarnations i ON i.job_id = l.job_id
    WHERE l.unique_key IS NOT NULL
) x;

-- Views for reporting: read-only, and their columns stay as they are across releases.
-- `due` is NULL for a job that does not tick, and the end of the pause for a paused one: see Job.due.

CREATE OR REPLACE VIEW mainspring.jobs AS
SELECT
    j.name AS job_name,
    j.template::json->'row'->>'handler' AS handler,
    j.template::json->'row'->>'queue' AS queue,
    (j.template::json->'row'->>'priority')::integer AS priority,
    j.declared::jsonb->'trigger' AS trigger,
    (j.declared::jsonb || j.overrides::jsonb)->>'description' AS description,
    coalesce(((j.declared::jsonb || j.overrides::jsonb)->>'enabled')::boolean, true) AS enabled,
    coalesce(((j.declared::jsonb || j.overrides::jsonb)->>'max_attempts')::integer, 10) AS max_attempts,
    j.origin,
    j.release,
    j.version,
    j.paused IS NOT NULL AS paused,
    j.paused_by,
    j.cancelled IS NOT NULL AS cancelled,
    mainspring.as_time(CASE WHEN j.paused IS NULL AND j.due IS NOT NULL THEN j.next_run END) AS next_run_at,
    mainspring.as_time(j.last_tick) AS last_tick_at,
    coalesce(i.last_number, 0) AS last_number,
    t.last_state AS last_status,
    mainspring.as_time(t.last_finished) AS last_finished_at,
    coalesce(t.completed, 0) AS completed,
    coalesce(t.partial, 0) AS partial,
    coalesce(t.failed, 0) AS failed,
    coalesce(t.cancelled, 0) AS cancelled_count,
    coalesce(t.skipped, 0) AS skipped,
    mainspring.as_time(j.created) AS created_at,
    mainspring.as_time(j.updated) AS updated_at
FROM mainspring.job j
LEFT JOIN mainspring.incarnation i ON i.job_id = j.id
LEFT JOIN mainspring.totals t ON t.job_key = i.key;

-- Each part of `x` is read along an index by job, and by the start: history by a BRIN index; of live rows only those that
-- have started (running, waiting, to be tried again). A NULL has its name in every part: pg_dump would invent another one,
-- and the doctor would find a changed view in what it restored.
CREATE OR REPLACE VIEW mainspring.job_executions AS
SELECT
    x.id AS execution_id,
    x.job AS job_name,
    x.body->>'handler' AS handler,
    coalesce(x.body->>'queue', 'default') AS queue,
    coalesce(nullif(x.body->>'trace_id', ''), replace(x.id::text, '-', '')) AS trace_id,
    x.status,
    coalesce(x.body->>'trigger', 'enqueue') AS trigger_type,
    coalesce(x.body->>'triggered_by', 'system') AS triggered_by,
    coalesce(x.number, mainspring.number_of(x.job_key, x.id)) AS number,
    coalesce(x.body->>'params', '{}')::jsonb AS params,
    x.tenant,
    x.parent_id,
    mainspring.as_time((x.body->>'tick')::bigint) AS scheduled_at,
    mainspring.as_time((x.body->>'window_begin')::bigint) AS window_begin,
    mainspring.as_time((x.body->>'window_end')::bigint) AS window_end,
    coalesce((x.body->>'priority')::integer, 0) AS priority,
    greatest(x.failures + (x.status <> 'failed')::integer, 1) AS attempt,
    coalesce(((x.body->>'policy')::json->>'max_attempts')::integer, 10) AS max_attempts,
    x.reason,
    x.error AS error_message,
    x.result::jsonb AS result,
    x.counters::jsonb AS counters,
    x.metadata::jsonb AS metadata,
    CASE WHEN x.tenant IS NULL THEN mainspring.tenants_of(x.id, x.body, x.result, 'total') END AS tenants_total,
    CASE WHEN x.tenant IS NULL THEN mainspring.tenants_of(x.id, x.body, x.result, 'success') END AS tenants_success,
    CASE WHEN x.tenant IS NULL THEN mainspring.tenants_of(x.id, x.body, x.result, 'failed') END AS tenants_failed,
    mainspring.as_time(x.created) AS created_at,
    mainspring.as_time(x.started) AS started_at,
    mainspring.as_time(x.finished) AS finished_at,
    (x.finished - x.started) / 1000.0 AS duration_ms,
    x.worker
FROM (
    SELECT l.id, l.job_key, i.job, l.started, l.tenant, l.parent_id,
        'pending' AS status, (l.body || '}')::json AS body, l.number, l.failures, l.reason, l.error, l.result,
        l.counters, l.metadata, l.created, NULL::bigint AS finished, l.attempts::json->-1->>'worker' AS worker
    FROM mainspring.live l JOIN mainspring.incarnation i ON i.key = l.job_key
    WHERE l.phase < 2
    UNION ALL
    SELECT l.id, l.job_key, i.job, l.started, l.tenant, l.parent_id,
        CASE l.phase WHEN 2 THEN 'running' ELSE 'waiting' END, (l.body || '}')::json, l.number, l.failures, l.reason,
        l.error, l.result, l.counters, l.metadata, l.created, NULL::bigint AS finished,
        coalesce(l.owner, l.attempts::json->-1->>'worker')
    FROM mainspring.live l JOIN mainspring.incarnation i ON i.key = l.job_key
    WHERE l.phase >= 2
    UNION ALL
    SELECT h.id, h.job_key, i.job, h.started, h.tenant, h.parent_id,
        h.state, (h.body || '}')::json, h.number, h.failures, h.reason, h.error, h.result, h.counters, h.metadata,
        h.created, h.finished, coalesce(h.tried_by, h.attempts::json->-1->>'worker')
    FROM mainspring.history h JOIN mainspring.incarnation i ON i.key = h.job_key
    WHERE h.state = 'completed'
    UNION ALL
    SELECT h.id, h.job_key, i.job, h.started, h.tenant, h.parent_id,
        h.state, (h.body || '}')::json, h.number, h.failures, h.reason, h.error, h.result, h.counters, h.metadata,
        h.created, h.finished, coalesce(h.tried_by, h.attempts::json->-1->>'worker')
    FROM mainspring.history h JOIN mainspring.incarnation i ON i.key = h.job_key
    WHERE h.state <> 'completed'
) x;

-- One row per tenant of a run: executions that have both a tenant and a parent.
CREATE OR REPLACE VIEW mainspring.tenant_executions AS
SELECT execution_id, parent_id AS parent_execution_id, tenant, job_name, trace_id, status, trigger_type, attempt,
    max_attempts, error_message, started_at, finished_at, duration_ms, window_begin, window_end, worker
FROM mainspring.job_executions
WHERE tenant IS NOT NULL AND parent_id IS NOT NULL;

-- The search keys of executions, live and finished: see `executions list --search`.
CREATE OR REPLACE VIEW mainspring.search_keys AS
SELECT g.id AS execution_id, split_part(g.label, '=', 1) AS name, substr(g.label, strpos(g.label, '=') + 1) AS value
FROM mainspring.label g
WHERE g.label !~ '^!';

-- Named locks, and the keys that live executions hold: `overlap` keeps other executions of the job from running,
-- `unique` keeps others with the same key from being enqueued.
CREATE OR REPLACE VIEW mainspring.locks AS
SELECT l.name, l.owner, l.token, mainspring.as_time(l.acquired) AS acquired_at,
    mainspring.as_time(l.expires) AS expires_at, 'lock' AS kind, NULL::text AS job_name, NULL::uuid AS execution_id,
    NULL::text AS status
FROM mainspring.lock l
WHERE l.expires > mainspring.now_micros()
UNION ALL
SELECT k.name, l.owner, l.token, mainspring.as_time(coalesce(l.started, l.created)), mainspring.as_time(l.lease),
    k.kind, i.job, l.id, CASE l.phase WHEN 2 THEN 'running' WHEN 3 THEN 'waiting' ELSE 'pending' END
FROM mainspring.live l
CROSS JOIN LATERAL (VALUES ('overlap', l.overlap_key), ('unique', l.unique_key)) k (kind, name)
JOIN mainspring.incarnation i ON i.key = l.job_key
WHERE k.name IS NOT NULL;

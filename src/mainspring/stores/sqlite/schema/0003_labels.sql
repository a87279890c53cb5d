-- Labels: texts by which executions are found. They go with their execution, whichever release deletes it.
CREATE TABLE mainspring_labels (
    label TEXT NOT NULL,
    id    TEXT NOT NULL,
    PRIMARY KEY (label, id)
) WITHOUT ROWID;

CREATE INDEX mainspring_labels_id ON mainspring_labels (id);

CREATE TRIGGER mainspring_executions_deleted AFTER DELETE ON mainspring_executions
BEGIN
    DELETE FROM mainspring_labels WHERE id = old.id;
END;

-- Search keys are the labels `name=value`; those of error groups begin with an exclamation mark.
CREATE VIEW mainspring_view_search_keys AS
SELECT id AS execution_id, substr(label, 1, instr(label, '=') - 1) AS name, substr(label, instr(label, '=') + 1) AS value
FROM mainspring_labels WHERE label NOT LIKE '!%';

-- The labels of a job, each between two unit separators: see Job.labels. This release writes them with the row of the
-- list; the view and the trigger do it for rows that a release before has written.
ALTER TABLE mainspring_job_list ADD COLUMN labels TEXT;

CREATE VIEW mainspring_job_labels AS
SELECT job.name, char(31) || coalesce((
    SELECT group_concat(label, char(31)) || char(31) FROM (
        SELECT 'owner=' || owner AS label
        FROM (SELECT coalesce(json_extract(job.overrides, '$.owner'), json_extract(job.declared, '$.owner')) AS owner)
        WHERE owner IS NOT NULL
        UNION ALL
        SELECT 'tag=' || value
        FROM json_each(coalesce(json_extract(job.overrides, '$.tags'), json_extract(job.declared, '$.tags'), '[]'))
        UNION ALL
        SELECT * FROM (
            SELECT 'meta.' || key || '=' || CASE type WHEN 'true' THEN 'true' WHEN 'false' THEN 'false' ELSE value END
            FROM json_each(
                coalesce(json_extract(job.overrides, '$.metadata'), json_extract(job.declared, '$.metadata'), '{}')
            )
            WHERE type IN ('text', 'integer', 'real', 'true', 'false') AND length(key) + length(value) <= 200
            ORDER BY key LIMIT 50
        )
    )
), '') AS labels
FROM mainspring_jobs AS job;

CREATE TRIGGER mainspring_job_list_labels AFTER INSERT ON mainspring_job_list WHEN new.labels IS NULL
BEGIN
    UPDATE mainspring_job_list SET labels = (
        SELECT labels FROM mainspring_job_labels WHERE name = new.name
    ) WHERE name = new.name;
END;

UPDATE mainspring_job_list SET labels = (
    SELECT labels FROM mainspring_job_labels WHERE mainspring_job_labels.name = mainspring_job_list.name
);

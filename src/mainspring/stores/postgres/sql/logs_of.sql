SELECT g.execution_id::text, g.seq, g.at, g.level, g.message, g.logger FROM mainspring.log g
WHERE g.execution_id = ANY ($1::text::uuid[]) ORDER BY g.execution_id, g.seq

DELETE FROM mainspring_jobs WHERE name = ?1 AND version = ?2 RETURNING id

SELECT id FROM mainspring_jobs WHERE name IN (SELECT value FROM json_each(?1)) AND cancelled IS NOT NULL

SELECT $job FROM mainspring_jobs WHERE name IN (SELECT value FROM json_each(?1)) ORDER BY name

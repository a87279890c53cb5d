SELECT $job FROM mainspring_jobs WHERE sweep = 1 ORDER BY name LIMIT ?1

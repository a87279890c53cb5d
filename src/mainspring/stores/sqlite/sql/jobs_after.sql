SELECT $job FROM mainspring_jobs WHERE name > ?1 ORDER BY name LIMIT ?2

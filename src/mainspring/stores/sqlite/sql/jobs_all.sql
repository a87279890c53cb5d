SELECT $job FROM mainspring_jobs ORDER BY name

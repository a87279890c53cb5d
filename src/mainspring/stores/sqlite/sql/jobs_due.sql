SELECT due, $job FROM mainspring_jobs WHERE due <= ?1 ORDER BY due, name LIMIT ?2

SELECT info FROM mainspring_workers ORDER BY id

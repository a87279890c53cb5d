SELECT info, seen, status FROM mainspring.worker ORDER BY id

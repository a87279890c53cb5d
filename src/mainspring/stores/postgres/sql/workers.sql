SELECT info, seen FROM mainspring.worker ORDER BY id

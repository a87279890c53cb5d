substr(body, 1, length(body) - 1)
|| iif(tail = '{}', '', ',' || substr(tail, 2, length(tail) - 2))
|| iif(todo, ',"todo":true,', ',')
|| substr(json_object(
    'id', history.id, 'job_id', history.job_id, 'state', state,
    'created', created, 'started', started, 'finished', finished
), 2)

-- If a field occurs twice, the later value counts.
substr(body, 1, length(body) - 1)
|| iif(tail IS NULL, '', ',' || substr(tail, 2, length(tail) - 2))
|| iif(todo, ',"todo":true,', ',')
|| substr(json_object(
    'state', state, 'due', due, 'token', token, 'claimed', claimed, 'started', started, 'finished', finished,
    'unique_key', unique_key, 'overlap_key', overlap_key, 'attempts_json', coalesce(attempts, '[]')
), 2)

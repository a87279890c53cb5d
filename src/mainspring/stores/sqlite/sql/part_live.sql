substr(body, 1, length(body) - 1)
|| iif(tail IS NULL, '', ',' || substr(tail, 2, length(tail) - 2))
|| iif(staged, ',"staged":true', '')
|| CASE
    WHEN phase < 2 AND token = 0 AND coalesce(
        owner, lease, claimed, started, unique_key, overlap_key, cancel_requested, cancel_reason
    ) IS NULL THEN ','  -- nothing has happened to it yet
    ELSE ',' || trim(json_object(
        'state', CASE phase WHEN 2 THEN 'running' WHEN 3 THEN 'waiting' ELSE 'pending' END,
        'token', token, 'owner', owner, 'lease', lease, 'claimed', claimed, 'started', started,
        'unique_key', unique_key, 'overlap_key', overlap_key,
        'cancel_requested', cancel_requested, 'cancel_reason', cancel_reason
    ), '{}') || ','
END
|| substr(json_object('id', live.id, 'job_id', live.job_id, 'created', created, 'due', due), 2)

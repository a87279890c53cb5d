-- If a field occurs twice, the later value counts.
CASE WHEN $plain THEN body
ELSE substr(body, 1, length(body) - 1)
    || iif(tail IS NULL, '', ',' || substr(tail, 2, length(tail) - 2))
    || iif(staged, ',"staged":true,', ',')
    || substr(json_object(
        'state', CASE phase WHEN 2 THEN 'running' WHEN 3 THEN 'waiting' ELSE 'pending' END,
        'due', due, 'token', token, 'owner', owner, 'lease', lease, 'claimed', claimed, 'started', started,
        'unique_key', unique_key, 'overlap_key', overlap_key,
        'parked', CASE phase WHEN 4 THEN substr(parked, instr(parked, ':') + 1) END,
        'cancel_requested', cancel_requested, 'cancel_reason', cancel_reason
    ), 2)
END

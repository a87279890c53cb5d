SELECT applied, freed, claimed, blocked, taken, alone_waiting, next_due, now,
    CASE WHEN claimed IS NOT NULL THEN to_json(mainspring.stopped_jobs())::text END
FROM mainspring.settle_then_claim(
    ROW(
        $1::text::uuid[], $2::text::bigint[], $3::text, $4::text::bigint[], $5::text::bigint[],
        $6::text::double precision[], string_to_array($7::text, chr(30), '')
    )::mainspring.completions,
    NULL,
    $8::text::json, $9::text, $10::bigint, $11::text::text[], $12::text::text[], $13::text::text[], $14::bigint,
    $15::integer, $16::integer, $17::boolean
)

SELECT applied, freed, claimed, blocked, taken, alone_waiting, next_due, now,
    CASE WHEN claimed IS NOT NULL THEN to_json(mainspring.stopped_jobs())::text END
FROM mainspring.settle_then_claim(
    NULL,
    ROW(
        $1::text::uuid[], $2::text::smallint[], $3::text::bigint[], $4::text::text[], $5::text::text[],
        $6::text::bigint[], $7::text::integer[], $8::text::integer[], $9::text::bigint[], $10::text::bigint[],
        $11::text::text[], $12::text::text[], $13::text::text[], $14::text::text[], $15::text::text[],
        $16::text::text[], $17::text::smallint[], $18::text::json
    )::mainspring.changes,
    $19::text::json, $20::text, $21::bigint, $22::text::text[], $23::text::text[], $24::text::text[], $25::bigint,
    $26::integer, $27::integer, $28::boolean
)

SELECT applied, freed, claimed, blocked, taken, alone_waiting, next_due, now
FROM mainspring.exchange(
    ROW(
        $1::text::uuid[], $2::text::integer[], $3::text, $4::text, $5::text::bigint[], $6::text::bigint[],
        $7::text::double precision[], string_to_array($8::text, chr(30), '')
    )::mainspring.endings,
    ROW(
        $9::text::uuid[], $10::text::smallint[], $11::text::integer[], $12::text::text[], $13::text::text[],
        $14::text::bigint[], $15::text::integer[], $16::text::integer[], $17::text::bigint[], $18::text::bigint[],
        $19::text::text[], $20::text::text[], $21::text::text[], $22::text::text[], $23::text::text[],
        $24::text::text[], $25::text::smallint[], $26::text::json
    )::mainspring.changes,
    $27::text, $28::text::text[], $29::text::text[], $30::bigint, $31::integer, $32::integer, $33::boolean
)

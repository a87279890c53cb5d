SELECT applied, freed, claimed, blocked, taken, alone_waiting, next_due, now
FROM mainspring.exchange(
    ROW(
        $1::text::uuid[], $2::text::integer[], $3::text, $4::text::bigint[], $5::text::bigint[],
        $6::text::double precision[], string_to_array($7::text, chr(30), '')
    )::mainspring.endings,
    ROW(
        $8::text::uuid[], $9::text::smallint[], $10::text::integer[], $11::text::text[], $12::text::text[],
        $13::text::bigint[], $14::text::integer[], $15::text::integer[], $16::text::bigint[], $17::text::bigint[],
        $18::text::text[], $19::text::text[], $20::text::text[], $21::text::text[], $22::text::text[],
        $23::text::text[], $24::text::smallint[], $25::text::json
    )::mainspring.changes,
    $26::text, $27::text::text[], $28::text::text[], $29::bigint, $30::integer, $31::integer, $32::boolean
)

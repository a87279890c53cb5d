-- Each body begins with its job, and no line break is inside of one: where the next begins is found by all of that, because
-- a longer mark is found sooner.
SELECT mainspring.add_lines(
    ROW(
        $1::text::uuid[], $2::text::bigint[],
        (string_to_array('}' || chr(10) || $3::text, '}' || chr(10) || '{"job":"'))[2:],
        $4::text::text[], $5::text::text[], $6::text::text[], $7::text::integer[], $8::text::bigint[], $9::text::text[],
        $10::text::text[], $11::text::uuid, $12::text::uuid
    )::mainspring.bare,
    '{"job":"', $13::text
)::text

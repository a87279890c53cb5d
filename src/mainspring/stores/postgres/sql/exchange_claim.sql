-- With nothing to settle. To pass on what is not there took a quarter of the server's time for an empty claim.
SELECT applied, freed, claimed, blocked, taken, alone_waiting, next_due, now,
    CASE WHEN claimed IS NOT NULL THEN to_json(mainspring.stopped_jobs())::text END
FROM mainspring.exchange(
    NULL, NULL, $1::text, $2::text::text[], $3::text::text[], $4::bigint, $5::integer, $6::integer, $7::boolean
)

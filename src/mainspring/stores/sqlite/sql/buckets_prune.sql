-- As stores.common.limits.is_full: a full bucket need not be stored.
DELETE FROM mainspring_buckets WHERE level + max(0, ?1 - since) * rate / 1000000 >= burst

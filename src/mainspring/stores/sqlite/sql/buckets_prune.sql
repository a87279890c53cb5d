-- As stores.common.limits.is_full: a full bucket is as good as none.
DELETE FROM mainspring_buckets WHERE level + max(0, ?1 - since) * rate / 1000000 >= burst

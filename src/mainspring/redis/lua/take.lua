-- ARGV: name, owner, microseconds. Returns token, acquired and expires, or nothing when the lock is held.
if held() then return false end
local over = redis.call('ZRANGEBYSCORE', ends, '-inf', digits(now), 'LIMIT', 0, 100)
if #over > 0 then forget(unpack(over)) end
-- A counter that was lost, with all data or in a failover, starts again at the current time, so tokens still grow.
local token = redis.call('INCR', tokens)
if token < now then
    token = now
    redis.call('SET', tokens, digits(now))
end
local expires = digits(now + ARGV[3])
hold(digits(token), digits(now), expires, ARGV[2])
return {digits(token), digits(now), expires}

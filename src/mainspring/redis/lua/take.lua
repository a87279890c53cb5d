-- ARGV: name, owner, microseconds. Answers token, acquired and expires, or nothing when somebody holds it.
if held() then return false end
local over = redis.call('ZRANGEBYSCORE', ends, '-inf', digits(now), 'LIMIT', 0, 100)
if #over > 0 then forget(unpack(over)) end
-- A counter that was lost, with the whole data or in a failover, begins again at the time: tokens still grow.
local token = redis.call('INCR', tokens)
if token < now then
    token = now
    redis.call('SET', tokens, digits(now))
end
local expires = digits(now + ARGV[3])
hold(digits(token), digits(now), expires, ARGV[2])
return {digits(token), digits(now), expires}

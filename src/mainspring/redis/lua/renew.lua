-- ARGV: name, token, microseconds. Compare and renew.
local token, acquired, _, owner = held()
if token ~= ARGV[2] then return 0 end
hold(token, acquired, digits(now + ARGV[3]), owner)
return 1

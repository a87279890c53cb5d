-- ARGV: name, token (empty for any holder), microseconds to keep it for. Compare and delete.
local token, acquired, _, owner = held()
if not token or (ARGV[2] ~= '' and token ~= ARGV[2]) then return 0 end
if tonumber(ARGV[3]) > 0 then
    hold(token, acquired, digits(now + ARGV[3]), owner)
else
    forget(name)
end
return 1

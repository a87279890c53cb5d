-- All locks held now, as a flat list: name, token, acquired, expires, owner for each.
local answer = {}
for _, each in ipairs(redis.call('ZRANGEBYSCORE', ends, '(' .. digits(now), '+inf')) do
    name = each
    local token, acquired, expires, owner = held()
    if token then
        for _, part in ipairs({name, token, acquired, expires, owner}) do table.insert(answer, part) end
    end
end
return answer

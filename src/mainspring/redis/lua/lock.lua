-- A lock is one field of a hash: "token acquired expires owner". Numbers are formatted in full, because Lua would
-- shorten them.
local locks, ends, tokens = KEYS[1], KEYS[2], KEYS[3]
local name = ARGV[1]

local function digits(number) return string.format('%.0f', number) end

-- Token, acquired, expires and owner of the lock, if it is held now.
local function held()
    local row = redis.call('HGET', locks, name)
    if not row then return nil end
    local token, acquired, expires, owner = string.match(row, '^(%d+) (%d+) (%d+) (.*)$')
    if tonumber(expires) > now then return token, acquired, expires, owner end
end

local function hold(token, acquired, expires, owner)
    redis.call('HSET', locks, name, token .. ' ' .. acquired .. ' ' .. expires .. ' ' .. owner)
    redis.call('ZADD', ends, expires, name)
end

local function forget(...)
    redis.call('HDEL', locks, ...)
    redis.call('ZREM', ends, ...)
end

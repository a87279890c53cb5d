-- The server's own clock, in microseconds: exact in a Lua number until the year 2255.
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]

-- Ends the writing of a journal. One that was written in another server stays without an end: its last lines may be lost.
-- KEYS: journal. ARGV: replica.
local kept = redis.call('HMGET', KEYS[1], 'writer', 'store')
if kept[1] == ARGV[1] then redis.call('HSET', KEYS[1], 'writer', kept[2] == store and '' or '?') end
return 1

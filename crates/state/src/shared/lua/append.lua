-- Appends lines to a journal, if this replica still writes it, and nothing of it was lost.
-- KEYS: journal, its lines, ids of the client's journals, lease of this replica. ARGV: lines, id, replica,
-- milliseconds of the lease, appended so far. Answer: 'done', 'taken' or 'lost'.
local kept = redis.call('HMGET', KEYS[1], 'writer', 'next', 'count')
if not kept[3] or tonumber(kept[3]) ~= tonumber(ARGV[5]) then return 'lost' end
if kept[1] ~= ARGV[3] or kept[2] then return 'taken' end
local time = redis.call('TIME')
redis.call('RPUSH', KEYS[2], ARGV[1])
redis.call('HSET', KEYS[1], 'store', store)
redis.call('HINCRBY', KEYS[1], 'count', 1)
redis.call('HINCRBY', KEYS[1], 'bytes', #ARGV[1])
redis.call('ZADD', KEYS[3], time[1] * 1000 + math.floor(time[2] / 1000), ARGV[2])
keep(KEYS[4], ARGV[4])
return 'done'

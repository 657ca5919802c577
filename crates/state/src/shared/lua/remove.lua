-- Removes a journal. KEYS: journal, its lines, ids of the client's journals. ARGV: id, beginning of the keys of leases.
-- Answer: 'done', 'none' or 'running'.
local writer = redis.call('HGET', KEYS[1], 'writer')
if not writer then return 'none' end
if writer ~= '' and redis.call('EXISTS', ARGV[2] .. writer) == 1 then return 'running' end
redis.call('DEL', KEYS[1], KEYS[2])
redis.call('ZREM', KEYS[3], ARGV[1])
return 'done'

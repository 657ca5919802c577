-- Finds a journal. KEYS: journal, its lines, ids of the client's journals. ARGV: id, beginning of the keys of leases.
-- Answer: nothing, or first line, bytes, time of the last line, 1 while it is written, the run that continues it or ''.
local kept = redis.call('HMGET', KEYS[1], 'writer', 'next', 'bytes')
if not kept[3] then return {} end
local runs = 0
if kept[1] ~= '' then runs = redis.call('EXISTS', ARGV[2] .. kept[1]) end
local changed = redis.call('ZSCORE', KEYS[3], ARGV[1]) or '0'
return {redis.call('LINDEX', KEYS[2], 0) or '', kept[3], changed, runs, kept[2] or ''}

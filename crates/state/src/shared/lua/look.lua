-- Reads the head of a record, and keeps the record for longer.
-- KEYS: record. ARGV: milliseconds until it expires, or 0. Answer: version, head, the store's time in milliseconds.
local kept = redis.call('HMGET', KEYS[1], 'version', 'head')
if tonumber(ARGV[1]) > 0 then redis.call('PEXPIRE', KEYS[1], ARGV[1]) end
local time = redis.call('TIME')
return {tonumber(kept[1]) or 0, kept[2] or '', time[1] * 1000 + math.floor(time[2] / 1000)}

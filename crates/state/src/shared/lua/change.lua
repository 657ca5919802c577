-- Changes a record, if nobody else has changed it since it was read.
-- KEYS: record. ARGV: version as it was read, new head, milliseconds until it expires or 0, name of a new field or '',
-- its value, fields to remove. Answer: 1, or 0 when it has another version.
if (tonumber(redis.call('HGET', KEYS[1], 'version')) or 0) ~= tonumber(ARGV[1]) then return 0 end
redis.call('HSET', KEYS[1], 'version', ARGV[1] + 1, 'head', ARGV[2])
if ARGV[4] ~= '' then redis.call('HSET', KEYS[1], ARGV[4], ARGV[5]) end
for i = 6, #ARGV do redis.call('HDEL', KEYS[1], ARGV[i]) end
if tonumber(ARGV[3]) > 0 then redis.call('PEXPIRE', KEYS[1], ARGV[3]) end
return 1

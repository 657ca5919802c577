-- Takes a token from a bucket (GCRA), by the store's clock.
-- KEYS: bucket, epoch. ARGV: microseconds a token, burst, the time at which the bucket is full again as this replica knows it.
-- Answer: microseconds to wait, or 0, or -1 while replicas put back what the store has lost; the time at which it is full again.
if not settled(KEYS[2]) then return {'-1', '0'} end
local per, burst, known = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000000 + tonumber(time[2])
local kept = redis.call('HMGET', KEYS[1], 'full', 'per')
local full = math.max(tonumber(kept[1]) or 0, known)
local before = tonumber(kept[2]) or per
-- With another rate the same number of tokens is missing.
if before ~= per then full = now + math.max(full - now, 0) / before * per end
-- A clock that was set back empties no bucket for longer than a whole burst.
full = math.min(math.max(full, now), now + per * burst)
local wait = full + per - now - per * burst
if wait > 0 then return {string.format('%.0f', math.ceil(wait)), string.format('%.0f', full)} end
full = full + per
redis.call('HSET', KEYS[1], 'full', string.format('%.0f', full), 'per', ARGV[1])
redis.call('PEXPIRE', KEYS[1], math.ceil((full - now) / 1000) + 60000)
return {'0', string.format('%.0f', full)}

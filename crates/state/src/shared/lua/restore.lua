-- Puts back what the store may have lost: levels of buckets, and which run continues which.
-- KEYS: buckets, then journals. ARGV: number of buckets; for each the time at which it is full again and its microseconds
-- a token; for each journal the run that continues it. Answer: number of claims that were put back.
local buckets, back = tonumber(ARGV[1]), 0
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000000 + tonumber(time[2])
for i = 1, buckets do
  local known, full = tonumber(ARGV[2 * i]), tonumber(redis.call('HGET', KEYS[i], 'full')) or 0
  if known > full and known > now then
    redis.call('HSET', KEYS[i], 'full', ARGV[2 * i], 'per', ARGV[2 * i + 1])
    redis.call('PEXPIRE', KEYS[i], math.ceil((known - now) / 1000) + 60000)
  end
end
for i = buckets + 1, #KEYS do
  local id = ARGV[1 + buckets + i]
  if redis.call('EXISTS', KEYS[i]) == 1 then back = back + redis.call('HSETNX', KEYS[i], 'next', id) end
end
return back

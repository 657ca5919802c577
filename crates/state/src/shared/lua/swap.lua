-- Replaces an approval, or a first list, if it is still as it was read. KEYS: it, ids of all. ARGV: id, 1 if there was one, it,
-- 1 if there is to be one, it. Answer: 1, or 0 when another one is there.
local now = redis.call('GET', KEYS[1])
if (ARGV[2] == '1') ~= (now ~= false) or (now and now ~= ARGV[3]) then return 0 end
if ARGV[4] == '1' then
  redis.call('SET', KEYS[1], ARGV[5])
  redis.call('SADD', KEYS[2], ARGV[1])
else
  redis.call('DEL', KEYS[1])
  redis.call('SREM', KEYS[2], ARGV[1])
end
return 1

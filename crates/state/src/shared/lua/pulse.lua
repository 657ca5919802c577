-- Says that a replica is there, and settles a server that is new to the replicas: when all of them that were there
-- before have put back what they know, or are gone for the time of a lease.
-- KEYS: lease of the replica, replicas, epoch. ARGV: replica, milliseconds of the lease, least milliseconds to settle,
-- what its lease is to say, the server that the replica has put back all to or '', the other replicas that it knew there.
-- Answer: this server, 1 if it is settled, the replicas.
local me, lease, grace, known = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[5]
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
if known ~= store then
  for i = 6, #ARGV do redis.call('ZADD', KEYS[2], 'NX', now, ARGV[i]) end
end
redis.call('SET', KEYS[1], ARGV[4], 'PX', lease)
redis.call('ZADD', KEYS[2], now, me)
if not settled(KEYS[3]) then
  if redis.call('HGET', KEYS[3], 'next') ~= store then
    redis.call('DEL', KEYS[3])
    redis.call('HSET', KEYS[3], 'next', store, 'since', string.format('%.0f', now))
  end
  if known == store then redis.call('HSET', KEYS[3], me, store) end
  local passed = now - tonumber(redis.call('HGET', KEYS[3], 'since'))
  local missing = false
  for _, replica in ipairs(redis.call('ZRANGEBYSCORE', KEYS[2], string.format('%.0f', now - lease), '+inf')) do
    if redis.call('HGET', KEYS[3], replica) ~= store then missing = true end
  end
  -- A clock that was set back makes it wait no longer.
  if (passed >= grace and not missing) or passed >= lease or passed < 0 then
    redis.call('DEL', KEYS[3])
    redis.call('HSET', KEYS[3], 'store', store)
  end
end
if settled(KEYS[3]) then redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', string.format('%.0f', now - lease)) end
return {store, settled(KEYS[3]) and 1 or 0, redis.call('ZRANGE', KEYS[2], 0, -1)}

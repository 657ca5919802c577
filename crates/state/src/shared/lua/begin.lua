-- Begins a journal, and marks the one that it continues.
-- KEYS: journal, its lines, ids of the client's journals, clients, lease of this replica, journal that it continues, or its
-- own, epoch. ARGV: first line, id, client, replica, milliseconds of the lease, beginning of the keys of leases, ids of
-- the chain. Answer: 'done', 'exists', 'gone', 'running', 'taken', 'lost', or 'unsettled' while replicas put back what the
-- store has lost.
local id, client, me = ARGV[2], ARGV[3], ARGV[4]
if redis.call('EXISTS', KEYS[1]) == 1 then return 'exists' end
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
if KEYS[6] ~= KEYS[1] then
  if not settled(KEYS[7]) then return 'unsettled' end
  if redis.call('EXISTS', KEYS[6]) == 0 then return 'gone' end
  local before = redis.call('HMGET', KEYS[6], 'next', 'writer', 'store')
  if before[1] then return 'taken' end
  if before[2] ~= '' then
    if redis.call('EXISTS', ARGV[6] .. before[2]) == 1 then return 'running' end
    if before[3] ~= store then return 'lost' end
  end
  redis.call('HSET', KEYS[6], 'next', id)
  for i = 7, #ARGV do redis.call('ZADD', KEYS[3], 'XX', now, ARGV[i]) end
end
redis.call('HSET', KEYS[1], 'writer', me, 'store', store, 'count', 1, 'bytes', #ARGV[1])
redis.call('RPUSH', KEYS[2], ARGV[1])
redis.call('ZADD', KEYS[3], now, id)
redis.call('SADD', KEYS[4], client)
keep(KEYS[5], ARGV[5])
return 'done'

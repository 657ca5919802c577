-- Before each script that must know which server it runs in: another one may have lost what the last one did.
local store = string.match(redis.call('INFO', 'server'), 'run_id:(%w+)') or 'unknown'
-- True once all replicas have put back what they knew, and this server did not.
local function settled(epoch) return redis.call('HGET', epoch, 'store') == store end
-- Keeps the lease of a replica for longer, with what it says of the tokens that the replica refuses; a new one says none.
local function keep(lease, ms)
  if redis.call('PEXPIRE', lease, ms) == 0 then redis.call('SET', lease, 'refuses', 'PX', ms) end
end

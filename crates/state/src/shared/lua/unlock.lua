-- Releases a lock that is still its holder's. KEYS: lock. ARGV: the holder's token.
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0

-- Ends the writing of a journal. KEYS: journal. ARGV: replica.
if redis.call('HGET', KEYS[1], 'writer') == ARGV[1] then redis.call('HSET', KEYS[1], 'writer', '') end
return 1

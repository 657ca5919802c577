-- Counts the executions of a session. KEYS: counter. ARGV: milliseconds until it expires. Answer: the next number.
local number = redis.call('INCR', KEYS[1])
redis.call('PEXPIRE', KEYS[1], ARGV[1])
return number

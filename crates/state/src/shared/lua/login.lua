-- Replaces a login, or removes it. KEYS: logins, their versions. ARGV: file, 1 if there is one, it. Answer: its version.
local version = redis.call('HINCRBY', KEYS[2], '#', 1)
if ARGV[2] == '1' then
  redis.call('HSET', KEYS[1], ARGV[1], ARGV[3])
  redis.call('HSET', KEYS[2], ARGV[1], version)
else
  redis.call('HDEL', KEYS[1], ARGV[1])
  redis.call('HDEL', KEYS[2], ARGV[1])
end
return version

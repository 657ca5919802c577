-- Lists journals, oldest first. KEYS: ids of a client's journals. ARGV: beginning of the keys of its journals.
-- Answer: for each: id, bytes, milliseconds since its last line.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local out, ids = {}, redis.call('ZRANGE', KEYS[1], 0, -1, 'WITHSCORES')
for i = 1, #ids, 2 do
  local bytes = redis.call('HGET', ARGV[1] .. ids[i], 'bytes')
  if bytes then
    out[#out + 1] = ids[i]
    out[#out + 1] = bytes
    out[#out + 1] = string.format('%.0f', math.max(now - tonumber(ids[i + 1]), 0))
  else
    redis.call('ZREM', KEYS[1], ids[i])
  end
end
return out

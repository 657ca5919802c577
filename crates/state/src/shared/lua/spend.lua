-- Adds a cost to every counter, or to none. A counter is a hash of what each replica has spent (+) and got back (-), so
-- that a replica can put back what the store has lost of its own.
-- KEYS: counters, then the epoch. ARGV: replica, cost; then for each counter: limit or '', 'day' or 'session', milliseconds until it
-- expires, day, spent and got back as this replica knows them.
-- Answer: -1 while replicas put back what the store has lost; else position of the counter that refuses or 0, its sum, what was lost; then for each counter: day, the replica's
-- own spent and got back, sum.
local me, cost = ARGV[1], tonumber(ARGV[2])
local today = math.floor(tonumber(redis.call('TIME')[1]) / 86400)
if cost > 0 and not settled(KEYS[#KEYS]) then return {-1, '0', '0'} end
local refused, refused_sum, lost, answer = 0, 0, 0, {}
for i = 1, #KEYS - 1 do
  local key = KEYS[i]
  local at = 2 + (i - 1) * 6
  local limit, kind, known_day = ARGV[at + 1], ARGV[at + 2], tonumber(ARGV[at + 4])
  local day = 0
  if kind == 'day' then
    day = tonumber(redis.call('HGET', key, 'day')) or today
    if day < today then
      redis.call('DEL', key)
      day = today
    elseif day > today + 1 then
      day = today
    end
    -- A replica knows a later day: the store has lost it, or its clock was set back.
    if known_day > day and known_day <= today + 1 then day = known_day end
    redis.call('HSET', key, 'day', day)
  end
  if known_day == day then
    for sign, known in pairs({['+'] = tonumber(ARGV[at + 5]), ['-'] = tonumber(ARGV[at + 6])}) do
      local own = tonumber(redis.call('HGET', key, sign .. me)) or 0
      if own < known then
        redis.call('HSET', key, sign .. me, string.format('%.0f', known))
        lost = lost + known - own
      end
    end
  end
  local sum, fields = 0, redis.call('HGETALL', key)
  for f = 1, #fields, 2 do
    local sign = string.sub(fields[f], 1, 1)
    if sign == '+' then sum = sum + tonumber(fields[f + 1]) end
    if sign == '-' then sum = sum - tonumber(fields[f + 1]) end
  end
  if refused == 0 and cost > 0 and limit ~= '' and sum + cost > tonumber(limit) then
    refused, refused_sum = i, sum
  end
  answer[i] = {day, sum}
  redis.call('PEXPIRE', key, ARGV[at + 3])
end
local out = {refused, string.format('%.0f', refused_sum), string.format('%.0f', lost)}
for i = 1, #KEYS - 1 do
  local key = KEYS[i]
  if refused == 0 and cost > 0 then
    redis.call('HINCRBY', key, '+' .. me, ARGV[2])
    answer[i][2] = answer[i][2] + cost
    redis.call('PEXPIRE', key, ARGV[2 + (i - 1) * 6 + 3])
  elseif cost < 0 then
    local back = math.min(-cost, answer[i][2])
    redis.call('HINCRBY', key, '-' .. me, string.format('%.0f', back))
    answer[i][2] = answer[i][2] - back
  end
  out[#out + 1] = answer[i][1]
  out[#out + 1] = redis.call('HGET', key, '+' .. me) or '0'
  out[#out + 1] = redis.call('HGET', key, '-' .. me) or '0'
  out[#out + 1] = string.format('%.0f', answer[i][2])
end
return out

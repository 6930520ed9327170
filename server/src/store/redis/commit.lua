-- Carries out one transaction of a space: looks at everything first, then writes. Nothing may fail in the second half,
-- since Redis keeps what a function wrote before it failed.
--
-- keys: the space's meta hash, then every record hash, stream and lease hash that the transaction names.
-- args: the channel of hints, how many checks, the checks, the writes; transaction.rs has them one by one.
-- Answers {1, version, now, removed, sequence or 0 of each append}, or {0, what failed, ...}.
local DAY_MS = 24 * 60 * 60 * 1000

local function number(value) return string.format('%.0f', value) end

-- Calls a command with a list of any length, of which Lua cannot pass much more than a thousand at once.
local function call_with(command, key, list)
  local answers = {}
  for i = 1, #list, 1000 do
    local answer = redis.call(command, key, unpack(list, i, math.min(i + 999, #list)))
    for _, value in ipairs(command == 'HMGET' and answer or {}) do answers[#answers + 1] = value end
  end
  return answers
end

local function commit(keys, args)
  local call, at = redis.call, 2
  local function take() at = at + 1; return args[at] end
  local function key() return keys[tonumber(take())] end
  local meta, base, fields = keys[1], string.sub(keys[1], 1, -2), {'v', 'c'}
  for i = 2, #keys do fields[i + 1] = string.sub(keys[i], #base + 1) end
  local known, streams = call_with('HMGET', meta, fields), {}
  for i = 2, #keys do
    local is_stream, state, type = string.byte(fields[i + 1]) == 115, known[i + 1], call('TYPE', keys[i]).ok
    local next, entries, weight = string.match(is_stream and state or '1 0 0', '^(%d+) (%d+) (%d+)$')
    local expected = is_stream and (state and 'stream' or 'none') or 'hash'
    if not next or (type ~= expected and (is_stream or type ~= 'none')) then
      return redis.error_reply('CORRUPT ' .. keys[i] .. ' is not what the coordinator keeps there')
    end
    streams[i] = {first = next + 0, next = next + 0, entries = entries + 0, weight = weight + 0, own = {}, gone = {}}
  end
  local time = call('TIME')
  local now_us = time[1] * 1000000 + time[2]
  local now = math.max(tonumber(known[2] or 0), math.floor(now_us / 1000))
  -- Later than any that was ever given, even where a server lost the last of them.
  local version = number(math.max((known[1] or 0) + 1, now_us))
  local day = math.floor(now / DAY_MS)

  for check = 0, args[2] - 1 do
    local op = take()
    if op == 'v' then
      local hash, id, wanted = key(), take(), take()
      local found = call('HGET', hash, 'v' .. id) or ''
      if found ~= wanted then return {0, 'v', check, found, call('HGET', hash, 'd' .. id)} end
    elseif op == 'u' then
      local id = take()
      for d = day - 1, day + 1 do -- tomorrow's too, should the clock have been set back
        local seen = call('HGET', base .. 'd:' .. d, id)
        if seen then return {0, 'u', seen} end
      end
    else
      local hash, name, alive = key(), take(), take()
      if ((call('HGET', hash, name) or 0) + 0 > now) ~= (alive == '1') then return {0, 'l', check} end
    end
  end

  local todo, answer, kept, dropped = {}, {1, version, now, 0}, false, false
  local function later(...) todo[#todo + 1] = {...} end
  local function keep(...) kept = true; later(...) end
  while at < #args do
    local op = take()
    if op == 'P' then keep('HSET', key(), take(), version, take(), take())
    elseif op == 'D' then later('HDEL', key(), take(), take())
    elseif op == 'L' then keep('HSET', key(), take(), number(now + take()))
    elseif op == 'E' then later('HDEL', key(), take())
    elseif op == 'H' then later('PUBLISH', args[1], take())
    elseif op == 'M' then
      local ledger = base .. 'd:' .. day
      keep('HSET', ledger, take(), take())
      if call('EXISTS', ledger) == 0 then later('PEXPIREAT', ledger, number((day + 2) * DAY_MS + 3600000)) end
    elseif op == 'A' then
      local i, data, weight, entries_max, weight_max, refuse = take() + 0, take(), take(), take(), take(), take()
      local s = streams[i]
      if entries_max ~= '' and (s.entries + 1 > entries_max + 0 or s.weight + weight > weight_max + 0) then
        if refuse == '1' then return {0, 'f', i} end
        answer[#answer + 1] = 0
      else
        keep('XADD', keys[i], number(s.next) .. '-0', 'd', data, 'w', weight)
        answer[#answer + 1], s.own[s.next], s.changed = s.next, weight, true
        s.next, s.entries, s.weight = s.next + 1, s.entries + 1, s.weight + weight
      end
    elseif op == 'R' then
      local i, first, last = take() + 0, take(), take()
      local s, found = streams[i], call('XRANGE', keys[i], first, last)
      for own = math.max(first, s.first), math.min(last, s.next - 1) do
        found[#found + 1] = {number(own) .. '-0', {'d', '', 'w', s.own[own]}}
      end
      local ids = {}
      for _, entry in ipairs(found) do
        if not s.gone[entry[1]] then
          ids[#ids + 1], s.gone[entry[1]] = entry[1], true
          s.entries, s.weight = s.entries - 1, s.weight - entry[2][4]
        end
      end
      if #ids > 0 then
        keep('XDEL', keys[i], unpack(ids))
        answer[4], s.changed = answer[4] + #ids, true
      end
    else
      dropped = true
      for _, field in ipairs(call('HKEYS', meta)) do later('UNLINK', base .. field) end
      for _, name in ipairs(keys) do later('UNLINK', name) end
      for d = day - 3, day + 1 do later('UNLINK', base .. 'd:' .. d) end
    end
  end

  for _, command in ipairs(todo) do call(unpack(command)) end
  if kept and not dropped then
    local set = {'v', version, 'c', number(now)}
    for i = 2, #keys do
      local s, is_stream = streams[i], string.byte(fields[i + 1]) == 115
      if s.changed or (not is_stream and not known[i + 1]) then
        set[#set + 1] = fields[i + 1]
        set[#set + 1] = is_stream and number(s.next) .. ' ' .. number(s.entries) .. ' ' .. number(s.weight) or '1'
      end
    end
    call_with('HSET', meta, set)
  end
  return answer
end

redis.register_function{function_name = NAME .. '_commit', callback = commit}
-- For what only frees, which may run while memory is full.
redis.register_function{function_name = NAME .. '_free', callback = commit, flags = {'allow-oom'}}

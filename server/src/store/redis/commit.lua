-- Executes one transaction on a namespace: validates everything, then writes. Nothing may fail in the second half, because Redis does
-- not roll back a failed function. In a cluster that is migrating the slot, every access to a key that is missing here fails. So the
-- first half accesses every key that the second half will, and no key may be emptied (and so vanish) before the end.
--
-- Keys: the namespace's meta hash, then every record hash, stream and lease hash that the transaction names.
-- Arguments: the notification channel, the caller's own channel, the server's history (data_loss.rs), the number of checks, the most
-- bytes that the namespace may hold or nothing, the checks, the writes; function_call.rs lists each.
-- Returns {1, version and the version of the commit that created the namespace, now, removed, 1 if the namespace now has that version,
-- 1 if notifications were published, then the sequence of each append, or 0}, or {0, what failed, ...}.
local DAY_MS = 24 * 60 * 60 * 1000
-- What an item counts besides its contents (usage.rs), and how many items of a key give the average if it has more.
local ITEM_BYTES, COUNTED_MAX = 64, 10000
local ARGUMENTS = {v = 3, u = 1, l = 3, P = 4, D = 3, A = 6, R = 3, S = 2, V = 1, M = 2, L = 3, E = 2, H = 1, X = 0}

-- Calls a command with a list of any length. Lua can pass only a little more than a thousand arguments at once.
local function call_with(command, key, list)
  if #list <= 1000 then return redis.call(command, key, unpack(list)) end
  local answers = {}
  for i = 1, #list, 1000 do
    local answer = redis.call(command, key, unpack(list, i, math.min(i + 999, #list)))
    for k = 1, command == 'HMGET' and #answer or 0 do answers[i + k - 1] = answer[k] end
  end
  return answers
end

-- Returns whether any other store subscribes to notifications. Every subscription of the caller is to both channels, so there are
-- others if the shared channel has more subscribers. A caller passes no own channel if one server cannot see all subscribers, as in
-- a cluster.
local function others_listen(shared, own)
  if own == '' then return true end
  local listeners = redis.call('PUBSUB', 'NUMSUB', shared, own)
  return listeners[2] > listeners[4]
end

-- Counts the bytes of a hash's items: its fields that start with `sort`, and their values.
local function hash_bytes(key, sort)
  local call, sub, length = redis.call, string.sub, redis.call('HLEN', key)
  local fields = length > COUNTED_MAX and call('HRANDFIELD', key, COUNTED_MAX) or call('HKEYS', key)
  local bytes = 0
  for _, field in ipairs(fields) do
    local size = sub(field, 1, #sort) == sort and call('HSTRLEN', key, field)
    -- A record without data counts nothing, but a reply without data does.
    if size and (size > 0 or sort == '') then bytes = bytes + #field - #sort + size + ITEM_BYTES end
  end
  return #fields > 0 and math.floor(bytes * length / #fields) or 0
end

-- Counts the bytes of a stream's entries.
local function stream_bytes(key)
  local length, found, bytes = redis.call('XLEN', key), redis.call('XRANGE', key, '-', '+', 'COUNT', COUNTED_MAX), 0
  for _, entry in ipairs(found) do bytes = bytes + #entry[2][2] + ITEM_BYTES end
  return #found > 0 and math.floor(bytes * length / #found) or 0
end

-- Counts what a namespace holds that an earlier version wrote: one that did not count.
local function count_usage(base, meta, day)
  local kept = 0
  for _, field in ipairs(redis.call('HKEYS', meta)) do
    local sort = string.sub(field, 1, 2)
    if sort == 'k:' then kept = kept + hash_bytes(base .. field, 'd') end
    if sort == 's:' then kept = kept + stream_bytes(base .. field) end
  end
  local replies = function(of) return hash_bytes(base .. 'd:' .. string.format('%d', of), '') end
  return {kept, day, replies(day), replies(day - 1)}
end

-- Returns the bytes of records and entries, the day, and the bytes of the replies of that day and of the day before. `state`: the
-- field of the meta hash, which is missing if an earlier version wrote the namespace.
local function usage_on(state, base, meta, day, exists)
  if not state then return exists and count_usage(base, meta, day) or {0, day, 0, 0} end
  local kept, at, replies, before = string.match(state, '^(%d+) (%d+) (%d+) (%d+)$')
  if not kept then return redis.error_reply('CORRUPT ' .. meta .. ' is not as a coordinator left it') end
  if at + 1 == day then return {kept + 0, day, 0, replies + 0} end
  if at + 1 < day then return {kept + 0, day, 0, 0} end
  return {kept + 0, at + 0, replies + 0, before + 0}
end

local function commit(keys, args)
  local call, sub, match, floor, max, format = redis.call, string.sub, string.match, math.floor, math.max, string.format
  local meta, base, fields, streams = keys[1], sub(keys[1], 1, -2), {'v', 'e', 'h', 'b', 'u'}, {}
  for i = 2, #keys do fields[i + 4] = sub(keys[i], #base + 1) end
  local known, time = call_with('HMGET', meta, fields), call('TIME')
  for i = 2, #keys do
    if sub(fields[i + 4], 1, 1) == 's' then
      local state, entries = known[i + 4], call('XLEN', keys[i])
      local next, weight = match(state or '1 0', '^(%d+) (%d+)$')
      if not next or entries == 0 and weight ~= '0' or entries > 0 and not state then
        return redis.error_reply('CORRUPT ' .. keys[i] .. ' is not as a coordinator left it')
      end
      next = next + 0
      streams[i] = {first = next, next = next, entries = entries, weight = weight + 0, changed = false}
    elseif not known[i + 4] then
      call('HLEN', keys[i]) -- fails if it is not a hash
    end
  end
  local now_us = time[1] * 1000000 + time[2]
  -- Later than any version ever given, even if the server lost the last of them.
  local later = max((known[1] or 0) + 1, now_us)
  local version, now = format('%d', later), floor(later / 1000)
  -- The version of the commit that created the namespace.
  local born = known[4] or known[1] and '0' or version
  local past, history = known[3] or '', args[3] .. ' '
  if #history > 1 and sub(past, 1, #history) ~= history then past = sub(history .. (known[1] or 0) .. ';' .. past, 1, 300) end
  local day = floor(now / DAY_MS)
  -- The day whose idempotency keys already have their expiry, and the day before it if it has keys.
  local today, yesterday = match(known[2] or '', '^(%d+) ?(%d*)$')
  if (today or 0) + 0 ~= day then
    yesterday = (today or 0) + 1 == day and today or ''
    today = format('%d', day)
  end
  local replies, at, count = base .. 'd:' .. today, 6, #args

  -- What the transaction adds and frees, and what the records that it writes count so far.
  local added, freed, new_replies, sizes = 0, 0, 0, {}
  for check = 0, args[4] - 1 do
    local op, a, b, c = args[at], args[at + 1], args[at + 2], args[at + 3]
    if op == 'v' then
      local found = call('HGET', keys[a + 0], 'v' .. b) or ''
      if found ~= c then return {0, op, check, found, call('HGET', keys[a + 0], 'd' .. b)} end
      if c == '' then sizes[a .. ' d' .. b] = 0 end
    elseif op == 'u' then -- the clock never goes backwards, so there are no keys under tomorrow
      local used = call('HGET', replies, a) or yesterday ~= '' and call('HGET', base .. 'd:' .. yesterday, a)
      if used then return {0, op, used} end
    elseif ((call('HGET', keys[a + 0], b) or 0) + 0 > now) ~= (c == '1') then
      return {0, op, check}
    end
    at = at + 1 + ARGUMENTS[op]
  end

  local first, published, answer, removals, doomed = at, nil, {1, version .. ' ' .. born, now, 0, 0, 0}, {}, {}
  while at <= count do
    local op, a, b, c, d = args[at], args[at + 1], args[at + 2], args[at + 3], args[at + 4]
    if op == 'A' then -- a: stream, b: data, c: weight, d: maximum entries
      local s = streams[a + 0]
      if d ~= '' and (s.entries + 1 > d + 0 or s.weight + c > args[at + 5] + 0) then
        if args[at + 6] == '1' then return {0, 'f', a + 0} end
        answer[#answer + 1] = 0
      else
        answer[#answer + 1], s[s.next], s.changed = s.next, {'d', b, 'w', c}, true
        added = added + #b + ITEM_BYTES
        s.next, s.entries, s.weight = s.next + 1, s.entries + 1, s.weight + c
      end
    elseif op == 'R' then -- a: stream, b: first, c: last
      local s, found, ids = streams[a + 0], call('XRANGE', keys[a + 0], b, c), {}
      for own = max(b, s.first), math.min(c, s.next - 1) do
        if s[own] then found[#found + 1] = {own .. '-0', s[own]} end
      end
      for _, entry in ipairs(found) do
        local id = entry[1]
        if not s[id] then
          ids[#ids + 1], s[id], s.changed = id, true, true
          s.entries, s.weight = s.entries - 1, s.weight - entry[2][4]
          freed = freed + #entry[2][2] + ITEM_BYTES
        end
      end
      removals[#removals + 1], answer[4] = ids, answer[4] + #ids
    elseif op == 'S' then -- a: stream, b: sequence
      local s = streams[a + 0]
      s.next, s.changed = max(s.next, b + 0), true
    elseif op == 'P' or op == 'D' then -- a: hash, then the fields of the version and the data
      local name, size = a .. ' ' .. c, op == 'P' and #d > 0 and #c - 1 + #d + ITEM_BYTES or 0
      if not sizes[name] then
        local length = known[a + 4] and call('HSTRLEN', keys[a + 0], c) or 0
        sizes[name] = length > 0 and #c - 1 + length + ITEM_BYTES or 0
      end
      added, freed, sizes[name] = added + size, freed + sizes[name], size
    elseif op == 'M' then
      new_replies = new_replies + #a + #b + ITEM_BYTES
    elseif op == 'H' and not published then
      published = others_listen(args[1], args[2]) and 1 or 0
    elseif op == 'X' then
      for _, key in ipairs(keys) do doomed[#doomed + 1] = key end
      for _, field in ipairs(call('HKEYS', meta)) do doomed[#doomed + 1] = base .. field end
      for past = day - 3, day do doomed[#doomed + 1] = base .. 'd:' .. past end
      for _, key in ipairs(doomed) do call('EXISTS', key) end
    end
    at = at + 1 + ARGUMENTS[op]
  end
  local usage
  if added > 0 or freed > 0 or new_replies > 0 then
    usage = usage_on(known[5], base, meta, day, known[1])
    if usage.err then return usage end
    local left, held = max(usage[1] + added - freed, 0), usage[1] + usage[3] + usage[4]
    local holds = left + usage[3] + usage[4] + new_replies
    if args[5] ~= '' and holds > held and holds > args[5] + 0 then return {0, 'q', held} end
    usage = format('%d %d %d %d', left, usage[2], usage[3] + new_replies, usage[4])
  end

  at = first
  local appended, removed, raised, expires, kept, dropped, put, gone = 6, 0, later, known[2], false, false, {}, {}
  while at <= count do
    local op, a, b, c = args[at], args[at + 1], args[at + 2], args[at + 3]
    if op == 'P' then call('HSET', keys[a + 0], b, version, c, args[at + 4])
    elseif op == 'L' then call('HSET', keys[a + 0], b, format('%d', now + c))
    elseif op == 'D' or op == 'E' then gone[#gone + 1] = {a + 0, b, op == 'D' and c or b}
    elseif op == 'H' then
      if published == 1 then call('PUBLISH', args[1], a) end
    elseif op == 'A' then
      appended = appended + 1
      if answer[appended] ~= 0 then call('XADD', keys[a + 0], format('%d-0', answer[appended]), 'd', b, 'w', c) end
    elseif op == 'V' then raised = max(raised, a + 0)
    elseif op == 'S' then -- the meta hash holds it
    elseif op == 'R' then
      removed = removed + 1
      if removals[removed][1] then call('XDEL', keys[a + 0], unpack(removals[removed])) end
    elseif op == 'M' then
      call('HSET', replies, a, b)
      if expires ~= today .. ' ' .. yesterday then
        expires = today .. ' ' .. yesterday
        call('PEXPIREAT', replies, (day + 2) * DAY_MS + 60 * 60 * 1000)
      end
    else
      for _, key in ipairs(doomed) do call('UNLINK', key) end
      call('PUBLISH', args[1], '!' .. match(base, '{(.-)}') .. '/' .. version)
      dropped = true
    end
    kept = kept or op == 'P' or op == 'L' or op == 'M' or op == 'V' or (op == 'D' or op == 'E') and known[1]
    at = at + 1 + ARGUMENTS[op]
  end

  at = gone[1] and first or count + 1
  while at <= count do
    local op = args[at]
    if op == 'P' or op == 'L' or op == 'D' or op == 'E' then put[args[at + 1] .. ' ' .. args[at + 2]] = op == 'P' or op == 'L' end
    at = at + 1 + ARGUMENTS[op]
  end
  for _, field in ipairs(dropped and {} or gone) do
    if not put[field[1] .. ' ' .. field[2]] then call('HDEL', keys[field[1]], field[2], field[3]) end
  end
  local set = {'v', raised > later and format('%d', raised) or version}
  if expires ~= known[2] then set[3], set[4] = 'e', expires end
  if not known[1] then set[#set + 1], set[#set + 2] = 'b', born end
  if past ~= known[3] then set[#set + 1], set[#set + 2] = 'h', past end
  if usage and usage ~= known[5] then set[#set + 1], set[#set + 2] = 'u', usage end
  for i = 2, #keys do
    local s = streams[i]
    if s and s.changed or not s and not known[i + 4] then
      set[#set + 1], set[#set + 2] = fields[i + 4], s and format('%d %d', s.next, s.weight) or ''
    end
    kept = kept or s and s.changed
  end
  answer[5], answer[6] = kept and 1 or 0, published or 0
  if kept and not dropped then call_with('HSET', meta, set) end
  return answer
end

redis.register_function{function_name = NAME .. '_commit', callback = commit}
-- For transactions that apply even while memory is full.
redis.register_function{function_name = NAME .. '_commit_when_full', callback = commit, flags = {'allow-oom'}}

-- Returns how many bytes a namespace holds. Remembers the count of one that an earlier version wrote, which did not count.
redis.register_function{function_name = NAME .. '_count_usage', callback = function(keys)
  local known, time, base = redis.call('HMGET', keys[1], 'v', 'u'), redis.call('TIME'), string.sub(keys[1], 1, -2)
  local day = math.floor(math.max((known[1] or 0) / 1000, time[1] * 1000) / DAY_MS)
  local usage = usage_on(known[2], base, keys[1], day, known[1])
  if usage.err then return usage end
  if known[1] and not known[2] then redis.call('HSET', keys[1], 'u', string.format('%d %d %d %d', unpack(usage))) end
  return usage[1] + usage[3] + usage[4]
end, flags = {'allow-oom'}}

-- Creates the store's marker, unless there is one. Returns it; see marker.rs. Runs while memory is full, so that the store can be used.
redis.register_function{function_name = NAME .. '_mark_store', callback = function(keys, args)
  if redis.call('HSETNX', keys[1], 'id', args[1]) == 1 then
    redis.call('HSET', keys[1], 'format', args[2], 'release', args[3])
  end
  return redis.call('HMGET', keys[1], 'id', 'format', 'release')
end, flags = {'allow-oom'}}

-- Counts a loss, once under each history. Returns the count so far, or 0 if the namespace does not exist.
redis.register_function(NAME .. '_count_loss', function(keys, args)
  if redis.call('EXISTS', keys[1]) == 0 then return 0 end
  if redis.call('HGET', keys[1], 'gh') ~= args[1] then
    redis.call('HINCRBY', keys[1], 'g', 1)
    redis.call('HSET', keys[1], 'gh', args[1])
  end
  return redis.call('HGET', keys[1], 'g') + 0
end)

-- Writes a mark to the replication log and leaves nothing behind, for replicas.rs.
redis.register_function{function_name = NAME .. '_mark', callback = function(keys)
  redis.call('SET', keys[1], '')
  return redis.call('DEL', keys[1])
end, flags = {'allow-oom'}}

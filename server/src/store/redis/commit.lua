-- Executes transactions on a namespace, one after the other. Each validates everything, then writes. Nothing may fail in the second
-- half, because Redis does not roll back a failed function. In a cluster that is migrating the slot, every access to a key that is
-- missing here fails. So the first half accesses every key that the second half will, and no key may be emptied (and so vanish) before
-- the end. What the transactions write to the meta hash is written at the end, together.
--
-- Keys: the namespace's meta hash, then every record hash, stream and lease hash that the transactions name.
-- Arguments: the notification channel, the caller's own channel, the server's history (data_loss.rs), then of each transaction the
-- number of checks, the most bytes that the namespace may hold or nothing, the checks, the writes; function_call.rs lists each.
-- `commit_all` executes several; the number of its arguments precedes each.
-- Returns {1, version and the version of the commit that created the namespace, now, removed, 1 if the namespace now has that version,
-- 1 if notifications were published, then the sequence of each append, or 0}, or {0, what failed, ...}. `commit_all` returns one of
-- these for each transaction, or {2} for one that wrote nothing because it failed, or {3, error} for one that failed while it wrote.
-- What the functions use of Lua. It does not exist before the first call, and it is found faster here.
local call, sub, match, format, floor, max, min
local function prepare()
  call, sub, match, format = redis.call, string.sub, string.match, string.format
  floor, max, min = math.floor, math.max, math.min
end
local DAY_MS = 24 * 60 * 60 * 1000
-- What an item counts besides its contents (usage.rs), and how many items of a key give the average if it has more.
local ITEM_BYTES, COUNTED_MAX = 64, 10000
local ARGUMENTS = {v = 3, u = 1, l = 3, P = 4, D = 3, A = 6, R = 3, S = 2, V = 1, M = 2, L = 3, E = 2, H = 1, X = 0}

-- Calls a command with a list of any length. Lua can pass only a little more than a thousand arguments at once.
local function call_with(command, key, list)
  if #list <= 1000 then return call(command, key, unpack(list)) end
  local answers = {}
  for i = 1, #list, 1000 do
    local answer = call(command, key, unpack(list, i, min(i + 999, #list)))
    for k = 1, command == 'HMGET' and #answer or 0 do answers[i + k - 1] = answer[k] end
  end
  return answers
end

-- Returns whether any other store subscribes to notifications. Every subscription of the caller is to both channels, so there are
-- others if the shared channel has more subscribers. A caller passes no own channel if one server cannot see all subscribers, as in
-- a cluster.
local function others_listen(shared, own)
  if own == '' then return true end
  local listeners = call('PUBSUB', 'NUMSUB', shared, own)
  return listeners[2] > listeners[4]
end

-- Counts the bytes of a hash's items: its fields that start with `sort`, and their values.
local function hash_bytes(key, sort)
  local length = call('HLEN', key)
  local fields = length > COUNTED_MAX and call('HRANDFIELD', key, COUNTED_MAX) or call('HKEYS', key)
  local bytes = 0
  for _, field in ipairs(fields) do
    local size = sub(field, 1, #sort) == sort and call('HSTRLEN', key, field)
    -- A record without data counts nothing, but a reply without data does.
    if size and (size > 0 or sort == '') then bytes = bytes + #field - #sort + size + ITEM_BYTES end
  end
  return #fields > 0 and floor(bytes * length / #fields) or 0
end

-- Counts the bytes of a stream's entries.
local function stream_bytes(key)
  local length, found, bytes = call('XLEN', key), call('XRANGE', key, '-', '+', 'COUNT', COUNTED_MAX), 0
  for _, entry in ipairs(found) do bytes = bytes + #entry[2][2] + ITEM_BYTES end
  return #found > 0 and floor(bytes * length / #found) or 0
end

-- Counts what a namespace holds that an earlier version wrote: one that did not count.
local function count_usage(base, meta, day)
  local kept = 0
  for _, field in ipairs(call('HKEYS', meta)) do
    local sort = sub(field, 1, 2)
    if sort == 'k:' then kept = kept + hash_bytes(base .. field, 'd') end
    if sort == 's:' then kept = kept + stream_bytes(base .. field) end
  end
  local replies = function(of) return hash_bytes(base .. 'd:' .. format('%d', of), '') end
  return {kept, day, replies(day), replies(day - 1)}
end

-- Returns the bytes of records and entries, the day, and the bytes of the replies of that day and of the day before. `state`: the
-- field of the meta hash, which is missing if an earlier version wrote the namespace.
local function usage_on(state, base, meta, day, exists)
  if not state then return exists and count_usage(base, meta, day) or {0, day, 0, 0} end
  local kept, at, replies, before = match(state, '^(%d+) (%d+) (%d+) (%d+)$')
  if not kept then return redis.error_reply('CORRUPT ' .. meta .. ' is not as a coordinator left it') end
  if at + 1 == day then return {kept + 0, day, 0, replies + 0} end
  if at + 1 < day then return {kept + 0, day, 0, 0} end
  return {kept + 0, at + 0, replies + 0, before + 0}
end

-- What the transactions of a call share. Variables of the library instead of a table, because they are faster.
-- Its keys, arguments and the prefix of its keys; the fields of the meta hash for the keys, and what they hold; the streams.
local keys, args, base, fields, known, streams
-- The version of the next transaction, and the day of all of them; the meta hash's `h`; the hashes of the replies of that day and of the
-- day before, and which days these are.
local later, day, past, replies, replies_before, expires
-- What to set in the meta hash; the usage so far, if it has changed; whether any transaction was kept; whether others listen; the
-- version before, while nothing but leases has changed.
local set, usage, kept_any, listened, before
-- The versions that were read, by key and id, if there are several transactions. The streams that the present one touches, and whether
-- it has begun to write.
local seen, touched, is_writing

-- Notes what to set in the meta hash besides what the transactions change.
local function note_meta()
  local history = args[3] .. ' '
  past = known[3] or ''
  if #history > 1 and sub(past, 1, #history) ~= history then
    past = sub(history .. (known[1] or 0) .. ';' .. past, 1, 300)
  end
  -- The day whose idempotency keys already have their expiry, and the day before it if it has keys.
  local today, yesterday = match(known[2] or '', '^(%d+) ?(%d*)$')
  if (today or 0) + 0 ~= day then
    yesterday = (today or 0) + 1 == day and today or ''
    today = format('%d', day)
  end
  replies, replies_before, expires = base .. 'd:' .. today, yesterday ~= '' and base .. 'd:' .. yesterday, today .. ' ' .. yesterday
end

-- Reads what the transactions of a call share. Writes nothing.
local function open(...)
  if not call then prepare() end
  keys, args = ...
  base, fields, streams = sub(keys[1], 1, -2), {'v', 'e', 'h', 'b', 'u'}, {}
  set, usage, kept_any, listened, seen = {'v', false, nil, nil, nil, nil, nil, nil}, nil, false, nil, nil
  for i = 2, #keys do fields[i + 4] = sub(keys[i], #base + 1) end
  local time
  known, time = call_with('HMGET', keys[1], fields), call('TIME')
  for i = 2, #keys do
    if sub(fields[i + 4], 1, 1) == 's' then
      local state, entries = known[i + 4], call('XLEN', keys[i])
      local next, weight = match(state or '1 0', '^(%d+) (%d+)$')
      if not next or entries == 0 and weight ~= '0' or entries > 0 and not state then
        return redis.error_reply('CORRUPT ' .. keys[i] .. ' is not as a coordinator left it')
      end
      next, weight = next + 0, weight + 0
      streams[i] = {first = next, next = next, had = entries, entries = entries, weighed = weight, weight = weight, changed = false}
    elseif not known[i + 4] then
      call('HLEN', keys[i]) -- fails if it is not a hash
    end
  end
  before = known[1]
  -- Later than any version ever given, even if the server lost the last of them.
  later = max((known[1] or 0) + 1, time[1] * 1000000 + time[2])
  day = floor(floor(later / 1000) / DAY_MS)
  note_meta()
end

-- Forgets what was known of a namespace that was dropped.
local function forget()
  for i = 1, #fields do known[i] = false end
  for _, s in pairs(streams) do
    s.first, s.next, s.had, s.entries, s.weighed, s.weight, s.changed = 1, 1, 0, 0, 0, 0, false
  end
  set, usage, kept_any, seen = {'v', false}, nil, false, seen and {}
  note_meta()
end

-- Appends to `found` the entries with sequences from `b` to `c` that the writes from `at` to `last` append to stream `a`, and to which
-- `answer` gives sequences. Returns whether there are none.
local function find_own(found, answer, at, last, a, b, c)
  local appended, stored = 6, #found
  while at < last do
    if args[at] == 'A' then
      appended = appended + 1
      local own = answer[appended]
      if args[at + 1] == a and own ~= 0 and own >= b + 0 and own <= c + 0 then
        found[#found + 1] = {format('%d-0', own), {'d', args[at + 2], 'w', args[at + 3]}}
      end
    end
    at = at + 1 + ARGUMENTS[args[at]]
  end
  return #found == stored
end

-- Returns the entries of a stream with sequences from `b` to `c`, and whether no entry comes before them.
local function find(key, b, c)
  local found = call('XRANGE', key, '-', c, 'COUNT', c - b + 1)
  if not found[1] or match(found[1][1], '^%d+') + 0 >= b + 0 then return found, true end
  return call('XRANGE', key, b, c), false
end

-- Executes one transaction, whose arguments are those from `at` to `last`. Returns its answer. `close` writes what it changes in the
-- meta hash.
local function commit(at, last)
  local call, keys, args, known, streams = call, keys, args, known, streams
  local own, version, now = later, format('%d', later), floor(later / 1000)
  -- The version of the commit that created the namespace.
  local born, checks, bytes_max = known[4] or known[1] and '0' or version, args[at] - 1, args[at + 1]
  at, touched = at + 2, {nil, nil}

  -- What the transaction adds and frees, and what the records that it writes count so far.
  local added, freed, new_replies, sizes = 0, 0, 0, {}
  for check = 0, checks do
    local op, a, b, c = args[at], args[at + 1], args[at + 2], args[at + 3]
    if op == 'v' then
      local found = seen and seen[a] and seen[a][b] or call('HGET', keys[a + 0], 'v' .. b) or ''
      if found ~= c then return {0, op, check, found, call('HGET', keys[a + 0], 'd' .. b)} end
      if c == '' then sizes[a .. ' d' .. b] = 0 end
      if seen then
        seen[a] = seen[a] or {}
        seen[a][b] = found
      end
    elseif op == 'u' then -- the clock never goes backwards, so there are no keys under tomorrow
      local used = call('HGET', replies, a) or replies_before and call('HGET', replies_before, a)
      if used then return {0, op, used} end
    elseif ((call('HGET', keys[a + 0], b) or 0) + 0 > now) ~= (c == '1') then
      return {0, op, check}
    end
    at = at + 1 + ARGUMENTS[op]
  end

  local first, published, answer, removals, doomed = at, nil, {1, version .. ' ' .. born, now, 0, 0, 0}, {}, {}
  while at <= last do
    local op, a, b, c, d = args[at], args[at + 1], args[at + 2], args[at + 3], args[at + 4]
    if op == 'A' then -- a: stream, b: data, c: weight, d: maximum entries
      local s = streams[a + 0]
      if d ~= '' and (s.entries + 1 > d + 0 or s.weight + c > args[at + 5] + 0) then
        if args[at + 6] == '1' then return {0, 'f', sub(fields[a + 4], 3)} end
        answer[#answer + 1] = 0
      else
        answer[#answer + 1], touched[#touched + 1] = s.next, s
        added = added + #b + ITEM_BYTES
        s.next, s.entries, s.weight = s.next + 1, s.entries + 1, s.weight + c
      end
    elseif op == 'R' then -- a: stream, b: first, c: last
      local s, ids = streams[a + 0], {}
      local found, is_prefix = find(keys[a + 0], b, c)
      if s.next > s.first then is_prefix = find_own(found, answer, first, at, a, b, c) and is_prefix end
      if is_prefix then ids.before = format('%d-0', c + 1) end
      for _, entry in ipairs(found) do
        local id = entry[1]
        if not sizes[a .. ' ' .. id] then
          ids[#ids + 1], sizes[a .. ' ' .. id], touched[#touched + 1] = id, 0, s
          s.entries, s.weight = s.entries - 1, s.weight - entry[2][4]
          freed = freed + #entry[2][2] + ITEM_BYTES
        end
      end
      removals[#removals + 1], answer[4] = ids, answer[4] + #ids
    elseif op == 'S' then -- a: stream, b: sequence
      local s = streams[a + 0]
      s.next, touched[#touched + 1] = max(s.next, b + 0), s
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
      if listened == nil then listened = others_listen(args[1], args[2]) end
      published = listened and 1 or 0
    elseif op == 'X' then
      for _, key in ipairs(keys) do doomed[#doomed + 1] = key end
      for _, field in ipairs(call('HKEYS', keys[1])) do doomed[#doomed + 1] = base .. field end
      for past = day - 3, day do doomed[#doomed + 1] = base .. 'd:' .. past end
      for _, key in ipairs(doomed) do call('EXISTS', key) end
    end
    at = at + 1 + ARGUMENTS[op]
  end
  local used
  if added > 0 or freed > 0 or new_replies > 0 then
    used = usage or usage_on(known[5], base, keys[1], day, known[1])
    if used.err then return used end
    local left, held = max(used[1] + added - freed, 0), used[1] + used[3] + used[4]
    local holds = left + used[3] + used[4] + new_replies
    if bytes_max ~= '' and holds > held and holds > bytes_max + 0 then return {0, 'q', held} end
    used = {left, used[2], used[3] + new_replies, used[4]}
  end

  at, is_writing = first, true
  local appended, removed, raised, kept, dropped, put, gone = 6, 0, later, touched[1] ~= nil, false, {}, {}
  while at <= last do
    local op, a, b, c = args[at], args[at + 1], args[at + 2], args[at + 3]
    if (op == 'P' or op == 'L') and not known[a + 4] then
      known[a + 4], set[#set + 1], set[#set + 2] = '', fields[a + 4], ''
    end
    if seen and (op == 'P' or op == 'D') then seen[a] = nil end
    if before and op ~= 'L' and op ~= 'E' and op ~= 'H' then before = nil end
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
      local ids = removals[removed]
      -- Redis frees what comes before an entry many times faster than it deletes as many entries.
      if ids[1] and ids.before then call('XTRIM', keys[a + 0], 'MINID', '=', ids.before)
      elseif ids[1] then call('XDEL', keys[a + 0], unpack(ids)) end
    elseif op == 'M' then
      call('HSET', replies, a, b)
      if expires ~= known[2] then
        known[2], set[#set + 1], set[#set + 2] = expires, 'e', expires
        call('PEXPIREAT', replies, (day + 2) * DAY_MS + 60 * 60 * 1000)
      end
    else
      for _, key in ipairs(doomed) do call('UNLINK', key) end
      call('PUBLISH', args[1], '!' .. match(base, '{(.-)}') .. '/' .. version)
      dropped = true
      forget()
    end
    kept = kept or op == 'P' or op == 'L' or op == 'M' or op == 'V' or (op == 'D' or op == 'E') and known[1]
    at = at + 1 + ARGUMENTS[op]
  end

  at = gone[1] and first or last + 1
  while at <= last do
    local op = args[at]
    if op == 'P' or op == 'L' or op == 'D' or op == 'E' then put[args[at + 1] .. ' ' .. args[at + 2]] = op == 'P' or op == 'L' end
    at = at + 1 + ARGUMENTS[op]
  end
  for _, field in ipairs(dropped and {} or gone) do
    if not put[field[1] .. ' ' .. field[2]] then call('HDEL', keys[field[1]], field[2], field[3]) end
  end
  answer[5], answer[6], later = kept and 1 or 0, published or 0, raised + 1
  if kept and not dropped then
    if not known[1] then known[4], set[#set + 1], set[#set + 2] = born, 'b', born end
    known[1], usage, kept_any = raised > own and format('%d', raised) or version, used or usage, true
    for i = 1, #touched do
      local s = touched[i]
      s.first, s.had, s.weighed, s.changed = s.next, s.entries, s.weight, true
    end
  end
  return answer
end

-- Writes what the transactions of a call change in the meta hash.
local function close()
  if not kept_any then return end
  set[2] = known[1]
  if before then
    -- The namespace holds what it held at the version before, or at the one before the leases changed then.
    local at, version = match(call('HGET', keys[1], 'c') or '', '^(%d+) (%d+)$')
    set[#set + 1], set[#set + 2] = 'c', known[1] .. ' ' .. (at == before and version or before)
  end
  if past ~= known[3] then set[#set + 1], set[#set + 2] = 'h', past end
  if usage then set[#set + 1], set[#set + 2] = 'u', format('%d %d %d %d', usage[1], usage[2], usage[3], usage[4]) end
  for i = 2, #keys do
    local s = streams[i]
    if s and s.changed then set[#set + 1], set[#set + 2] = fields[i + 4], format('%d %d', s.next, s.weight) end
  end
  call_with('HSET', keys[1], set)
end

local function commit_one(keys, args)
  local failed = open(keys, args)
  if failed then return failed end
  local answer = commit(4, #args)
  close()
  return answer
end

local function commit_all(keys, args)
  local is_open, failed = pcall(open, keys, args)
  local answers, at = {}, 4
  seen = {}
  while at <= #args do
    local last, answer = at + args[at], {2}
    if is_open and not failed then
      is_writing, touched = false, {}
      local is_done, returned = pcall(commit, at + 1, last)
      if is_done and not returned.err then
        answer = returned
      elseif is_writing then
        answer, later = {3, type(returned) == 'table' and returned.err or tostring(returned)}, later + 1
      end
      -- Forget what it would have done to its streams.
      if not is_writing then
        for _, s in ipairs(touched) do s.next, s.entries, s.weight = s.first, s.had, s.weighed end
      end
    end
    answers[#answers + 1], at = answer, last + 1
  end
  close()
  return answers
end

redis.register_function{function_name = NAME .. '_commit', callback = commit_one}
redis.register_function{function_name = NAME .. '_commit_all', callback = commit_all}
-- For transactions that apply even while memory is full.
redis.register_function{function_name = NAME .. '_commit_when_full', callback = commit_one, flags = {'allow-oom'}}
redis.register_function{function_name = NAME .. '_commit_all_when_full', callback = commit_all, flags = {'allow-oom'}}

-- Returns how many bytes a namespace holds. Remembers the count of one that an earlier version wrote, which did not count.
redis.register_function{function_name = NAME .. '_count_usage', callback = function(keys)
  if not call then prepare() end
  local known, time, base = redis.call('HMGET', keys[1], 'v', 'u'), redis.call('TIME'), sub(keys[1], 1, -2)
  local day = floor(max((known[1] or 0) / 1000, time[1] * 1000) / DAY_MS)
  local usage = usage_on(known[2], base, keys[1], day, known[1])
  if usage.err then return usage end
  if known[1] and not known[2] then redis.call('HSET', keys[1], 'u', format('%d %d %d %d', unpack(usage))) end
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

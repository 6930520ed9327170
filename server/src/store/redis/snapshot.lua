
-- Copies a namespace under other keys as of one instant, for export.rs to read bit by bit. The copies expire by themselves.
-- Key: the meta hash. Arguments: the prefix of the copies, and after how many milliseconds they expire.
-- Returns the time in microseconds, the fields and values of the meta hash, and the days whose idempotency keys were copied.
redis.register_function(NAME .. '_snapshot', function(keys, args)
  local call, meta, base, days = redis.call, keys[1], string.sub(keys[1], 1, -2), {}
  local function copy(name)
    local to = args[1] .. name
    if call('COPY', base .. name, to, 'REPLACE') == 0 then return false end
    call('PEXPIRE', to, args[2])
    return true
  end
  local fields, time = call('HGETALL', meta), call('TIME')
  for i = 1, #fields, 2 do
    local field, value = fields[i], fields[i + 1]
    if field == 'e' then
      for day in string.gmatch(value, '%d+') do
        if copy('d:' .. day) then days[#days + 1] = day end
      end
    elseif field == 'l' or string.match(field, '^[ks]:') then
      copy(field)
    end
  end
  return {string.format('%d', time[1] * 1000000 + time[2]), fields, days}
end)

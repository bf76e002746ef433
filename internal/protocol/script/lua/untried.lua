-- What acquire begins with for the other kinds: nothing was tried yet. See mutex_acquire.lua.

local tried = false

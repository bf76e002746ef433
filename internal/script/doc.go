// Package script holds the protocol: the Lua files, the calls that run them and the replies they give.
//
// A script is several files put together: time and tokens (token.lua), a kind (who may be inside together: mutex.lua; most kinds stand on
// holds.lua, too), the line (line.lua: waiting and granting) and an operation (acquire, await, release, renew, inspect, force, resize). A
// new kind is one more file that answers the questions which mutex.lua lists, and one more variable here.
//
// Each operation runs atomically and may be sent twice. The keys of a latch are in internal/keys; the whole protocol, with the reasons,
// is told in docs/protocol.md, which a change to keys or replies must change too.
package script

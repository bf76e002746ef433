// Package script holds the protocol: the Lua files, the calls that run them and the replies they give.
//
// A script is three files put together: a kind (who may be inside together: mutex.lua), the line (line.lua: waiting, granting, tokens)
// and an operation (acquire, await, release, renew, inspect, force). A new kind is one more file that answers the questions which
// mutex.lua lists, and one more variable here.
//
// Each operation runs atomically and may be sent twice. The keys of a latch are in internal/keys; the whole protocol, with the reasons,
// is told in docs/protocol.md, which a change to keys or replies must change too.
package script

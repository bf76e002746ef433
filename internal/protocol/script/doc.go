// Package script holds the protocol: the Lua files, the calls that run them, the replies they give
// and the messages they publish.
//
// # How a script is put together
//
// A script consists of several files, one after the other:
//
//	token.lua      time and tokens              (quorum_token.lua on a node of a quorum)
//	zset.lua       what kinds on sorted sets share, if the kind is one
//	KIND.lua       which owners may be inside together: the questions that mutex.lua lists
//	tickets.lua    what a ticket in line is, and which waiters are dead
//	line.lua       waiting and granting         (quorum_line.lua on a node of a quorum)
//	OPERATION.lua  acquire, await, release, renew, inspect, force, seize, adopt, resize, want, ask, used, proclaim;
//	               vote, raise, confirm, mend
//
// A new kind is one more file that answers the questions, and one more variable here;
// docs/development.md lists what else it needs.
//
// Lua creates every function again on each run, so code that the common case does not need comes
// after the point where that case returns. Such a file has a line "-- cold", sometimes as its
// first. A script is the upper parts of all its files, in order, and then their lower parts:
//
//	token  mutex          | tickets  line         above "-- cold": SET NX PX, the token, return
//	acquire               |
//	----------------------+---------------------
//	token  mutex  tickets   line  acquire         below it: everything else
//
// So the code of an operation above its line may use only what is above that line in the other
// files. An operation without the line ends with the part above. Comments and indentation are left
// out. To read a script as Redis gets it:
//
//	go run ./internal/protocol/script/print mutex acquire
//
// The scripts that acquire and release a mutex, and vote for it, begin with mutex_acquire.lua,
// mutex_release.lua and mutex_vote.lua, which handle the common case without any function.
// acquire.lua asks whether that was tried; for the other kinds, untried.lua says that it was not.
//
// Each operation runs atomically and may be sent twice. The keys of a latch are in internal/protocol/keys;
// docs/protocol.md describes the whole protocol, with the reasons. A change to keys, replies or
// messages must change it, too.
package script

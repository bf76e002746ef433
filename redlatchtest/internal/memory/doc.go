// Package memory is a server that knows as much of Redis as redlatch's scripts ask of it: strings,
// hashes, sorted sets, streams, expiries, channels and Lua. It has no socket. The tests' network
// calls it, and decides what arrives when.
//
//	Eval(call) ---> engine (Lua, one run at a time) ---> commands ---> keys
//	                                                         |
//	Subscribe(channel, message) <------ PUBLISH -------------'
//
// It answers as Redis 7.0 does, in texts as the protocol's second version writes them, so that one
// test can run all scripts on both and compare. It differs on purpose in this alone: its clock is
// the one that it is given, and a key whose time has passed is removed when a command meets it.
//
// What can happen to a server, happens by methods: it loses its data, comes back with a copy of
// them as another process ([Server.Restart]), forgets its scripts, or refuses writes ([Refusal]).
package memory

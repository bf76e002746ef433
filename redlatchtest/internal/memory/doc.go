// Package memory is a server that knows as much of Redis as redlatch's scripts need: strings,
// hashes, sorted sets, streams, expiries, channels and Lua. It has no socket. The tests' network
// calls it, and decides what arrives when.
//
//	Eval(call) ---> engine (Lua, one run at a time) ---> commands ---> keys
//	                                                         |
//	Subscribe(channel, message) <------ PUBLISH -------------'     and sharded channels likewise
//
// It answers as Redis 7.0 does, in version 2 of the protocol (RESP2). TestAnswersAsRedis runs all
// scripts on both, from random states, and compares what they do. It differs on purpose only in
// this:
//
//   - Its clock is the one that it is given, and an expired key is removed when a command meets it.
//   - A large hash keeps its fields in order, as a small one does. In Redis, they have no order.
//   - If a script joins a number to a string (..), gopher-lua writes all digits, and Redis 14 of
//     them. So a time in microseconds, joined without string.format, is right here and wrong in
//     Redis.
//
// Methods simulate what can happen to a server: it loses its data, comes back with a copy of
// them as another process ([Server.Restart]), forgets its scripts, or refuses writes ([Refusal]).
package memory

// Package memory is a server that knows as much of Redis as redlatch's scripts need: strings,
// hashes, sorted sets, streams, expiries, channels and Lua. It has no socket. The tests' network
// calls it, and decides what arrives when.
//
//	Eval(call) ---> engine (Lua, one run at a time) ---> commands ---> keys
//	                                                         |
//	Subscribe(channel, message) <------ PUBLISH -------------'     and sharded channels likewise
//
// It answers as Redis 7.0 does, in texts as the protocol's second version writes them.
// TestAnswersAsRedis runs all scripts on both, from random states, and compares what they do. It
// differs on purpose in this alone:
//
//   - Its clock is the clock that it is given, and a key whose time has passed is removed when a
//     command meets it.
//   - A large hash has its fields in order, as a small one has. That of Redis has them in none.
//   - Where a script joins a number to a text, gopher-lua writes all digits, and Redis 14 of them.
//     So a time in microseconds, joined without string.format, is right here and wrong in Redis.
//
// Methods simulate what can happen to a server: it loses its data, comes back with a copy of
// them as another process ([Server.Restart]), forgets its scripts, or refuses writes ([Refusal]).
package memory

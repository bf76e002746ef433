// Package wrapped has a client of go-redis inside a type of a program's own. Go compiles each of the
// six hundred methods of such a type, so it is a package that is compiled once, and not with every
// change of what the tests use.
package wrapped

import "github.com/redis/go-redis/v9"

// Around returns a type that embeds a client.
func Around(c *redis.Client) redis.UniversalClient { return struct{ *redis.Client }{c} }

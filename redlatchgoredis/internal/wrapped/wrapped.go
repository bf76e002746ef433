// Package wrapped has a go-redis client inside another type, as a program may. Go compiles each of
// the six hundred methods of such a type, so it has its own package, which is compiled once and not
// with every change of the tests.
package wrapped

import "github.com/redis/go-redis/v9"

// Around returns a type that embeds a client.
func Around(c *redis.Client) redis.UniversalClient { return struct{ *redis.Client }{c} }

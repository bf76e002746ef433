// Package fenceredis refuses the writes of late lock holders inside Redis.
//
// A script compares the token with the newest seen and writes, in one step:
//
//	value, found, err := fenceredis.Get(ctx, c, "stock:7", token)
//	...
//	err = fenceredis.Set(ctx, c, "stock:7", "41", token, 0)
//
// Get matters if what is written depends on what was read: a late write could otherwise come
// between the two.
//
// c is any [conn.Conn]: redlatchgoredis.New(client) or redlatchrueidis.New(client, addr) over the
// client that the program has. The Redis server with the data need not be the one with the locks.
//
// # Where the token is kept
//
// The newest token seen, the mark, is in a key beside the value's, in the same hash slot:
// {stock:7}:mark for stock:7, {order}:7:mark for {order}:7. It is as safe as the value: what loses
// the value, such as a failover, can lose the mark, and then an old token passes until a newer one
// is seen. It expires seven days after the value would, and never if the value does not. Set
// maxmemory-policy so that neither is evicted.
//
// The mark belongs to the key, not to the lock: if a lock protects several keys, a late holder is
// refused only at those that the next holder has written. Where that matters, write them all in one
// script of your own, with one mark.
//
// # Scripts of your own
//
// [Check] is the Lua function that Set uses. Put it in front of a script, and call it before the
// first write.
package fenceredis

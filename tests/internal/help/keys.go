package help

import (
	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/testkit/locktest"
)

// FenceKey returns the key with the last token of a name.
func FenceKey(name string) string { return locktest.SiblingKey(name, "fence") }

// QueueKey returns the key with the line of a name.
func QueueKey(name string) string { return locktest.SiblingKey(name, "queue") }

// ClientsKey returns the key with the addresses of the waiters in line for a name.
func ClientsKey(name string) string { return locktest.SiblingKey(name, "clients") }

// InsideKey returns the key with what is known about the owners that are inside.
func InsideKey(name string) string { return locktest.SiblingKey(name, "inside") }

// ForcedKey returns the key with the notes of forced releases of a name.
func ForcedKey(name string) string { return locktest.SiblingKey(name, "forced") }

// BitsKey returns the key with the slots of a name that are taken.
func BitsKey(name string) string { return locktest.SiblingKey(name, "bits") }

// LastKey returns the key with the last slots of instances.
func LastKey(name string) string { return "{redlatch:" + name + "}:last" }

// GrantsChannel returns the channel on which a client hears of its grants.
func GrantsChannel(c *redlatch.Client) string { return "{redlatch:" + c.ID() + "}:grants" }

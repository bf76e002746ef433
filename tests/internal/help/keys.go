package help

import (
	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/testkit/locktest"
)

// FenceKey is the key with the last token of a name.
func FenceKey(name string) string { return locktest.SiblingKey(name, "fence") }

// QueueKey is the key with the line of a name.
func QueueKey(name string) string { return locktest.SiblingKey(name, "queue") }

// ClientsKey is the key with the addresses of those in line for a name.
func ClientsKey(name string) string { return locktest.SiblingKey(name, "clients") }

// InsideKey is the key with what is known of those that are inside.
func InsideKey(name string) string { return locktest.SiblingKey(name, "inside") }

// ForcedKey is the key with the notes of forced releases of a name.
func ForcedKey(name string) string { return locktest.SiblingKey(name, "forced") }

// BitsKey is the key with the slots of a name that are taken.
func BitsKey(name string) string { return locktest.SiblingKey(name, "bits") }

// LastKey is the key with the last slots of instances.
func LastKey(name string) string { return "{redlatch:" + name + "}:last" }

// GrantsChannel is where a client hears of its grants.
func GrantsChannel(c *redlatch.Client) string { return "{redlatch:" + c.ID() + "}:grants" }

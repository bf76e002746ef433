package verify

import (
	"slices"
	"strings"
)

// promises returns what docs/guarantees.md says of a deployment under these faults.
func promises(deployment string, faults []string) []string {
	all := []string{
		"tokens of a name increase over all acquisitions, and a resource that checks them takes no late write",
		"a crashed holder costs the others what was left of its lease; a crashed waiter costs nothing once its connection is seen to close",
		"a request may be sent twice and means one; nothing stays in Redis but what expires",
	}
	has := func(names ...string) bool {
		return slices.ContainsFunc(names, func(name string) bool { return slices.Contains(faults, name) })
	}
	exclusion := "two never hold a lock at once"
	var but []string // when they may
	switch {
	case deployment == "quorum":
		exclusion += " while a minority of the nodes fails in whatever way"
	case has("failover", "master-kill", "isolation"):
		but = append(but, "a failover, which may lose locks that were not replicated")
	case has("server-kill"):
		but = append(but, "the server came back without data")
	case deployment == "sentinel" || deployment == "cluster":
		exclusion += " (a failover would be an exception; none is among the faults)"
	}
	if has("clock-ahead") {
		but = append(but, "a clock was set ahead")
	}
	if has("delete-key") {
		but = append(but, "the key of a lock was deleted")
	}
	if len(but) > 0 {
		exclusion += ", except for one TTL after verify itself did harm: " + strings.Join(but, ", or ")
	}
	return append([]string{exclusion}, all...)
}

package verify

import "slices"

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
	exclusion := "two never hold at once"
	switch {
	case deployment == "quorum":
		exclusion += ", while a minority of the nodes fails in whatever way"
	case has("failover", "master-kill", "isolation"):
		exclusion += ", but for a TTL after a failover, which may lose locks that were not replicated"
	case has("server-kill"):
		exclusion += ", but for a TTL after the server came back without data"
	case deployment == "sentinel" || deployment == "cluster":
		exclusion += "; a failover, which is not among the faults, would be an exception"
	}
	if has("clock-ahead") {
		exclusion += "; and but for a TTL after a clock was set ahead"
	}
	if has("delete-key") {
		exclusion += "; and but for a TTL after the key of a lock was deleted"
	}
	return append([]string{exclusion}, all...)
}

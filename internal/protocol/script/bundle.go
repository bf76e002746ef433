package script

import "github.com/redlatch/redlatch/conn"

// A bundle is one run of a script that stands for runs of an operation on several mutexes of one
// server. It costs Redis, the network and the client less than those runs: the overhead of a run is
// paid once.

// bundle says how the calls of an operation are combined.
type bundle struct {
	script *lazy
	keys   []int // indices of those that it takes from each call
	shared int   // how many arguments at the beginning all have in common
	args   []int // indices of those that it takes from each call
	only   int   // how many arguments a call must have; 0 if that does not matter
	ticket int   // the argument that must be "", with at most one more after it; 0 if there is none
}

var bundles = map[*conn.Script]bundle{
	&Mutex.acquire.script: {script: Mutex.operation("acquires"), keys: []int{0, 1, 2}, shared: 1, args: []int{1, 2, 3}},
	&Mutex.release.script: {script: Mutex.operation("releases"), keys: []int{0, 2}, args: []int{1}, ticket: 2},
	&Mutex.renew.script:   {script: Mutex.operation("renews"), keys: []int{0}, args: []int{0, 1}, only: 2},
}

// Bundles reports whether the call may be part of a bundle.
func Bundles(call conn.Call) bool {
	b, ok := bundles[call.Script]
	return ok && (b.only == 0 || len(call.Args) == b.only) && (b.ticket == 0 || call.Args[b.ticket] == "" && len(call.Args) <= b.ticket+2)
}

// Bundle returns one call that stands for several of the same script, for which [Bundles] is true.
func Bundle(calls []conn.Call) conn.Call {
	b := bundles[calls[0].Script]
	call := conn.Call{
		Script: b.script.get(),
		Keys:   make([]string, 0, len(calls)*len(b.keys)),
		Args:   append(make([]string, 0, b.shared+len(calls)*len(b.args)), calls[0].Args[:b.shared]...),
	}
	for _, c := range calls {
		call.Resent = call.Resent || c.Resent
		for _, i := range b.keys {
			call.Keys = append(call.Keys, c.Keys[i])
		}
		for _, i := range b.args {
			call.Args = append(call.Args, c.Args[i])
		}
	}
	return call
}

// Unbundle returns the reply to each of n calls, as the operation itself would give it, or an
// integer 0 if the call has to be made by itself.
func Unbundle(r conn.Reply, n int) ([]conn.Reply, error) {
	if len(r.List) != n {
		return nil, unexpected(r)
	}
	return r.List, nil
}

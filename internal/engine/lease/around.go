package lease

import "context"

// endsKey is the key that the context package looks up in a context, to find what makes a context
// derived from that one end.
var endsKey = func() any {
	var p probe
	_ = context.Cause(&p)
	return p.key
}()

// probe is a context that remembers which key it was asked for.
type probe struct {
	context.Context
	key any
}

func (p *probe) Value(key any) any { p.key = key; return nil }
func (p *probe) Err() error        { return context.Canceled }

// around is the context around that of a lease. It asks that context only once how it ends: the
// context package would ask again at each cancellation. The lease is locked then, and a context of
// the program may take a mutex that the program also holds when it calls the lease.
type around struct {
	context.Context
	done <-chan struct{}
	ends any
}

func (c *around) Done() <-chan struct{} { return c.done }

func (c *around) Value(key any) any {
	if key == endsKey {
		return c.ends
	}
	return c.Context.Value(key)
}

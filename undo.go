package redlatch

// abandon releases an owner of this client in the background, until it is neither inside nor in
// line.
func (l *latch) abandon(owner, ticket string) { l.client.undo.Abandon(&l.Lock, owner, ticket) }

package memory

import "slices"

// listeners are those to the channels of a server.
type listeners struct {
	channels channels
	shards   channels                      // sharded ones, which are others: all hear none of them
	all      []*Subscription               // to all channels
	relay    func(channel, payload string) // to the other nodes of a cluster; nil if there is none
}

// Subscription is one listener to one channel, or to all.
type Subscription struct {
	of      channels // nil if it is to all
	channel string
	message func(channel, payload string)
}

// channels are the listeners to each channel.
type channels map[string][]*Subscription

// add has message called for each message to a channel.
func (of channels) add(channel string, message func(payload string)) *Subscription {
	sub := &Subscription{of: of, channel: channel, message: func(_, payload string) { message(payload) }}
	of[channel] = append(of[channel], sub)
	return sub
}

// tell returns how many listeners a message reached.
func (of channels) tell(channel, payload string) int64 {
	subs := of[channel]
	for _, sub := range subs {
		sub.message(channel, payload)
	}
	return int64(len(subs))
}

// publish is tell for those to all channels too, and for the other nodes, which it does not count. The
// pattern * does not match a channel without a name.
func (l *listeners) publish(channel, payload string) int64 {
	n := l.channels.tell(channel, payload)
	if channel != "" {
		for _, sub := range l.all {
			sub.message(channel, payload)
		}
		n += int64(len(l.all))
	}
	if l.relay != nil {
		l.relay(channel, payload)
	}
	return n
}

// end ends a subscription.
func (l *listeners) end(sub *Subscription) {
	is := func(other *Subscription) bool { return other == sub }
	if sub.of == nil {
		l.all = slices.DeleteFunc(l.all, is)
		return
	}
	left := slices.DeleteFunc(sub.of[sub.channel], is)
	if len(left) == 0 {
		delete(sub.of, sub.channel)
		return
	}
	sub.of[sub.channel] = left
}

// count returns how many subscriptions there are.
func (l *listeners) count() int {
	n := len(l.all)
	for _, of := range []channels{l.channels, l.shards} {
		for _, subs := range of {
			n += len(subs)
		}
	}
	return n
}

package memory

import "slices"

// listeners has the listeners to the channels of a server.
type listeners struct {
	channels channels
	shards   channels                      // sharded channels, which are separate
	relay    func(channel, payload string) // to the other nodes of a cluster; nil if there is none
}

// Subscription is one listener to one channel.
type Subscription struct {
	of      channels
	channel string
	message func(payload string)
}

// channels are the listeners to each channel.
type channels map[string][]*Subscription

// add makes tell call message for each message to a channel.
func (of channels) add(channel string, message func(payload string)) *Subscription {
	sub := &Subscription{of, channel, message}
	of[channel] = append(of[channel], sub)
	return sub
}

// tell sends a message to the listeners of a channel, and returns how many there are.
func (of channels) tell(channel, payload string) int64 {
	subs := of[channel]
	for _, sub := range subs {
		sub.message(payload)
	}
	return int64(len(subs))
}

// publish is like tell, and also tells the other nodes, whose listeners it does not count.
func (l *listeners) publish(channel, payload string) int64 {
	n := l.channels.tell(channel, payload)
	if l.relay != nil {
		l.relay(channel, payload)
	}
	return n
}

// end ends a subscription.
func (sub *Subscription) end() {
	left := slices.DeleteFunc(sub.of[sub.channel], func(other *Subscription) bool { return other == sub })
	if sub.of[sub.channel] = left; len(left) == 0 {
		delete(sub.of, sub.channel)
	}
}

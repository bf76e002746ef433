package memory

import (
	"errors"
	"strings"
)

func publish(s *Server, args []string) (any, error) {
	subs := s.channels[args[0]]
	for _, sub := range subs {
		sub.message(args[0], args[1])
	}
	for _, sub := range s.all {
		sub.message(args[0], args[1])
	}
	if s.relay != nil {
		s.relay(args[0], args[1])
	}
	return int64(len(subs) + len(s.all)), nil
}

// spublish reaches listeners to a sharded channel. Sharded channels are others than those of PUBLISH,
// and the listeners to all channels hear none of them.
func spublish(s *Server, args []string) (any, error) {
	if s.old {
		return nil, errors.New("ERR unknown command 'SPUBLISH'")
	}
	subs := s.shards[args[0]]
	for _, sub := range subs {
		sub.message(args[0], args[1])
	}
	return int64(len(subs)), nil
}

func pubsub(s *Server, args []string) (any, error) {
	what := strings.ToUpper(args[0])
	if what != "NUMSUB" && (what != "SHARDNUMSUB" || s.old) {
		return nil, errSyntax
	}
	of := s.channels
	if what == "SHARDNUMSUB" {
		of = s.shards
	}
	var all []any
	for _, channel := range args[1:] {
		all = append(all, channel, int64(len(of[channel])))
	}
	return all, nil
}

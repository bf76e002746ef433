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
	return int64(len(subs) + len(s.all)), nil
}

// spublish reaches no listener: there are no subscriptions to sharded channels, which are others
// than those of PUBLISH.
func spublish(s *Server, _ []string) (any, error) {
	if s.old {
		return nil, errors.New("ERR unknown command 'SPUBLISH'")
	}
	return int64(0), nil
}

func pubsub(s *Server, args []string) (any, error) {
	what := strings.ToUpper(args[0])
	if what != "NUMSUB" && (what != "SHARDNUMSUB" || s.old) {
		return nil, errSyntax
	}
	var all []any
	for _, channel := range args[1:] {
		n := 0
		if what == "NUMSUB" {
			n = len(s.channels[channel])
		}
		all = append(all, channel, int64(n))
	}
	return all, nil
}

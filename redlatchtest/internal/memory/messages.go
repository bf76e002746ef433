package memory

import (
	"errors"
	"strings"
)

func publish(s *store, args []string) (any, error) {
	return s.listeners.publish(args[0], args[1]), nil
}

func spublish(s *store, args []string) (any, error) {
	if s.old {
		return nil, errors.New("ERR unknown command 'SPUBLISH'")
	}
	return s.listeners.shards.tell(args[0], args[1]), nil
}

func pubsub(s *store, args []string) (any, error) {
	what := strings.ToUpper(args[0])
	if what != "NUMSUB" && (what != "SHARDNUMSUB" || s.old) {
		return nil, errSyntax
	}
	of := s.listeners.channels
	if what == "SHARDNUMSUB" {
		of = s.listeners.shards
	}
	var all []any
	for _, channel := range args[1:] {
		all = append(all, channel, int64(len(of[channel])))
	}
	return all, nil
}

package memory

import (
	"errors"
	"strconv"
)

func timeOf(s *store, _ []string) (any, error) {
	us := s.now().UnixMicro()
	return []any{strconv.FormatInt(us/1e6, 10), strconv.FormatInt(us%1e6, 10)}, nil
}

func info(s *store, _ []string) (any, error) {
	version := "7.0.15"
	if s.old {
		version = "6.0.16"
	}
	return "# Server\r\nredis_version:" + version + "\r\nrun_id:" + s.run + "\r\n", nil
}

// ping refuses on a server that cannot write to its disk, as if it wrote.
func ping(s *store, _ []string) (any, error) {
	if s.refusal == DiskFull {
		return nil, errors.New(refusals[DiskFull])
	}
	return status("PONG"), nil
}

func flush(s *store, _ []string) (any, error) {
	clear(s.keys)
	return ok, nil
}

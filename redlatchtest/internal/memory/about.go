package memory

import "strconv"

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

func flush(s *store, _ []string) (any, error) {
	clear(s.keys)
	return ok, nil
}

package redlatchrueidis

import (
	"encoding/binary"
	"net"
	"testing"

	"github.com/redis/rueidis"

	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/internal/testkit/answers"
	"github.com/redlatch/redlatch/internal/testkit/check"
)

// FuzzParseSlots reads whatever a node may answer to CLUSTER SLOTS.
func FuzzParseSlots(f *testing.F) {
	master := []byte{3, 2, 1, 1, 'h', 0, 7}
	f.Add([]byte{}, "a:1")
	f.Add(append([]byte{3, 1, 3, 3, 0, 0, 0, 9}, master...), "a:1")
	f.Add([]byte{3, 1, 3, 3, 0, 0, 0, 9, 3, 2, 1, 0, 0, 7}, "no port")
	f.Add([]byte{3, 1, 3, 3, 0, 0, 1, 1, '9', 2, 0}, "[::1]:7")
	f.Fuzz(func(t *testing.T, data []byte, from string) {
		reply, _ := answers.Reply(data, 4)
		var m rueidis.RedisMessage
		check.OK(t, "CacheUnmarshalView", m.CacheUnmarshalView(packed(make([]byte, 7), reply)))
		all, err := parseSlots(m, from)
		check.That(t, err == nil || all == nil, "%q, and %v", all, err)
		for _, r := range all {
			_, _, err := net.SplitHostPort(r.Addr)
			check.Nil(t, "SplitHostPort", err)
		}
	})
}

// packed appends a reply in the form in which rueidis keeps one.
func packed(b []byte, r conn.Reply) []byte {
	kind, n := byte(':'), uint64(r.Int)
	switch {
	case r.Nil:
		kind = '_'
	case r.List != nil:
		kind, n = '*', uint64(len(r.List))
	case r.Text != "":
		kind, n = '$', uint64(len(r.Text))
	}
	b = append(binary.BigEndian.AppendUint64(append(b, kind), n), r.Text...)
	for _, e := range r.List {
		b = packed(b, e)
	}
	return b
}

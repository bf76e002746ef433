package freeport_test

import (
	"net"
	"testing"

	"github.com/redlatch/redlatch/internal/testkit/check"
	"github.com/redlatch/redlatch/internal/testkit/freeport"
)

// TestReserve: a server can listen there, and another caller does not get the address before the
// socket is closed.
func TestReserve(t *testing.T) {
	t.Parallel()
	kept, addr, err := freeport.Reserve()
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		server, err := net.Listen("tcp", addr)
		check.Must(t, err == nil, "a server cannot listen: %v", err)
		check.OK(t, "Close", server.Close())
	}
	if other, err := net.ListenPacket("udp", addr); err == nil {
		_ = other.Close()
		t.Error("another caller could get the address")
	}
	check.OK(t, "Close", kept.Close())
	other, err := net.ListenPacket("udp", addr)
	check.Must(t, err == nil, "the address is kept for ever: %v", err)
	check.OK(t, "Close", other.Close())
}

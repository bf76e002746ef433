// Package freeport finds ports for servers that a test or a verification starts, kills and starts
// again.
package freeport

import (
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
)

// Ports come from below the range that systems use for outgoing connections. In that range, a
// client that dials a dead server may be given the very port it dials and reach itself, or keep the
// server from coming back. The bus port of a cluster node, 10000 higher, stays below that range
// too, and no other server has it.
const lowest, count = 10000, 10000

// Reserve returns an address of 127.0.0.1 at which nothing listens, and a UDP socket there that
// keeps other callers from it, in this process and others, until it is closed. Without that, the
// clients of a server that was killed may reach another that was started since. Redis does not use
// UDP, so a server can listen there and be restarted.
func Reserve() (kept net.PacketConn, addr string, err error) {
	for range 100 {
		addr = net.JoinHostPort("127.0.0.1", strconv.Itoa(lowest+rand.IntN(count)))
		if kept, err = net.ListenPacket("udp", addr); err != nil {
			continue
		}
		var l net.Listener
		if l, err = net.Listen("tcp", addr); err == nil {
			return kept, addr, l.Close()
		}
		_ = kept.Close()
	}
	return nil, "", fmt.Errorf("no free port on 127.0.0.1: %w", err)
}

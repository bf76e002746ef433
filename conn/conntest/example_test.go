package conntest_test

import (
	"testing"

	"github.com/redis/rueidis"

	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/conn/conntest"
	"github.com/redlatch/redlatch/redlatchrueidis"
)

// The test of an adapter, in its own package.
func ExampleRun() {
	_ = func(t *testing.T) { // TestConn
		conntest.Run(t, func(t *testing.T, s conntest.Server) (conn.Conn, error) {
			return redlatchrueidis.Open(rueidis.ClientOption{
				InitAddress: []string{s.Addr}, Username: s.Username, Password: s.Password, TLSConfig: s.TLS,
			})
		})
	}
}

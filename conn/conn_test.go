package conn_test

import (
	"testing"

	"github.com/redlatch/redlatch/conn"
)

func TestServerVersion(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ info, want string }{
		{"# Server\r\nredis_version:7.0.15\r\nredis_mode:standalone\r\n", "7.0.15"},
		{"# Server\r\nredis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:9.1.2\r\n", "9.1.2"},
		{"valkey_version:9.1.2\r\nredis_version:7.2.4\r\n", "9.1.2"},
		{"# Server\r\n", ""},
	} {
		got, err := conn.ServerVersion(c.info)
		if got != c.want || (err == nil) != (c.want != "") {
			t.Errorf("ServerVersion(%q) = %q, %v, want %q", c.info, got, err, c.want)
		}
	}
}

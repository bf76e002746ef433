package app

import (
	"fmt"
	"strings"
	"testing"

	"github.com/redlatch/redlatch"
)

// TestAdviceOnASentinelThatIsWrong: it names a replica as the master, as it may during a failover.
func TestAdviceOnASentinelThatIsWrong(t *testing.T) {
	t.Parallel()
	err := fmt.Errorf("%w: the redis role is not master", redlatch.ErrUnreachable) // as rueidis says it
	if got := Advice(err, []string{"redis+sentinel://host/name"}); !strings.Contains(got, "Sentinel names a server that is no master") {
		t.Errorf("Advice = %q, want it to tell of Sentinel", got)
	}
}

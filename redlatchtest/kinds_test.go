package redlatchtest_test

import (
	"testing"

	"github.com/redlatch/redlatch/internal/kindtest"
	"github.com/redlatch/redlatch/redlatchtest"
)

func TestEveryKind(t *testing.T) {
	t.Parallel()
	s := redlatchtest.Start(t)
	kindtest.Run(t, open(t, s), open(t, s), "")
}

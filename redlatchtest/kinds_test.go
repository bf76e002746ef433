package redlatchtest_test

import (
	"testing"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/testkit/check"
	"github.com/redlatch/redlatch/internal/testkit/kindtest"
	"github.com/redlatch/redlatch/redlatchtest"
)

func TestEveryKind(t *testing.T) {
	t.Parallel()
	s := redlatchtest.Start(t)
	c := open(t, s)
	kindtest.Run(t, c, open(t, s), "")
	check.OK(t, "Lock", check.ErrorOf(c.Mutex("listed").Lock(t.Context())))
	for info, err := range c.List(t.Context(), redlatch.ListOptions{}) {
		check.Must(t, err == nil, "List = %v", err)
		t.Log(info.Name)
	}
}

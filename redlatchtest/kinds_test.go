package redlatchtest_test

import (
	"testing"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/testkit/kindtest"
	"github.com/redlatch/redlatch/redlatchtest"
)

func TestEveryKind(t *testing.T) {
	t.Parallel()
	s := redlatchtest.Start(t)
	c := open(t, s)
	kindtest.Run(t, c, open(t, s), "")
	if _, err := c.Mutex("listed").Lock(t.Context()); err != nil {
		t.Fatal(err)
	}
	for info, err := range c.List(t.Context(), redlatch.ListOptions{}) {
		if err != nil {
			t.Fatalf("List = %v", err)
		}
		t.Log(info.Name)
	}
}

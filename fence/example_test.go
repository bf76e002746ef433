package fence_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/redlatch/redlatch/fence"
)

// The tokens are what [redlatch.Lease.Token] returned to two holders, one after the other.
func ExampleMarks() {
	var marks fence.Marks // belongs to the resource
	save := func(ctx context.Context, token int64, text string) error {
		return marks.Do(ctx, "report:monthly", token, func(context.Context) error {
			fmt.Println("saved:", text)
			return nil
		})
	}
	ctx := context.Background()
	fmt.Println(save(ctx, 1002, "of the second holder"))
	fmt.Println(save(ctx, 1001, "of the first, which was suspended"))
	// Output:
	// saved: of the second holder
	// <nil>
	// redlatch: write refused for "report:monthly": token 1001 is stale, a later holder has been here with 1002; lock again and start over
}

func ExampleMarks_Check() {
	var marks fence.Marks
	fmt.Println(marks.Check("a", 7), marks.Check("a", 7))
	fmt.Println(errors.Is(marks.Check("a", 6), fence.ErrStale))
	// Output:
	// <nil> <nil>
	// true
}

func ExampleStaleError() {
	var marks fence.Marks
	_ = marks.Check("a", 7)
	err := marks.Check("a", 6)
	var stale *fence.StaleError
	if errors.As(err, &stale) {
		fmt.Println(stale.Name, stale.Token, stale.Current)
	}
	// Output: a 6 7
}

// remote is a lease as another process tells of it.
type remote struct {
	name  string
	token int64
}

func (r remote) Name() string { return r.name }
func (r remote) Token() int64 { return r.token }

// A guard takes a *redlatch.Lease, or anything else that has a name and a token.
func ExampleLease() {
	var lease fence.Lease = remote{"a", 7}
	var marks fence.Marks
	fmt.Println(marks.Check(lease.Name(), lease.Token()))
	// Output: <nil>
}

// Ten payouts from one account, each by a client of its own, as if by ten instances of a service.
// The lock puts them in order; the fencing token, checked by the account, protects it even from an
// instance that stands still for longer than its lease.
//
// It prints the ten payouts and then "balance 0".
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"sync"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/examples/internal/server"
)

// account stands for a row in a database with a column for the token.
type account struct {
	mu      sync.Mutex
	balance int
	fence   int64
}

var errStale = errors.New("stale token: somebody else has been here since")

// get is what `UPDATE account SET fence = ? WHERE id = ? AND fence <= ? RETURNING balance` does. It shows
// the token before the balance is read: else a write that is late could come between the two.
func (a *account) get(token int64) (balance int, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if token <= 0 || token < a.fence {
		return 0, errStale
	}
	a.fence = token
	return a.balance, nil
}

// set is what `UPDATE account SET balance = ? WHERE id = ? AND fence = ?` does.
func (a *account) set(balance int, token int64) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if token != a.fence {
		return errStale
	}
	a.balance = balance
	return nil
}

func main() {
	url, stop := server.URL()
	defer stop()
	ctx := context.Background()

	acc := &account{balance: 100}
	var instances sync.WaitGroup
	for i := range 10 {
		instances.Go(func() {
			if err := payOut(ctx, url, acc, 10); err != nil {
				log.Fatalf("instance %d: %v", i, err)
			}
		})
	}
	instances.Wait()
	fmt.Println("balance", acc.balance)
}

// payOut reads, thinks and writes: without the lock, payouts would be lost between the two.
func payOut(ctx context.Context, url string, acc *account, amount int) error {
	client, err := redlatch.Open(ctx, url, redlatch.Options{})
	if err != nil {
		return err
	}
	defer client.Close()
	return client.Mutex("account:7").Do(ctx, func(ctx context.Context, lease *redlatch.Lease) error {
		token := lease.Token()
		balance, err := acc.get(token)
		if err != nil {
			return err
		}
		fmt.Printf("paying out %d, %d left\n", amount, balance-amount)
		return acc.set(balance-amount, token)
	})
}

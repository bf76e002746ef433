package redlatch_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"sync"
	"time"

	"github.com/redlatch/redlatch"
)

// spoolLock is a [sync.Locker] on a mutex, for code that wants one and cannot be changed. Neither
// of its methods can return an error. So Lock returns only with the lock, and the loss of the lock
// ends the program.
type spoolLock struct {
	mutex *redlatch.Mutex

	local sync.Mutex // is held from Lock to Unlock, and guards what is below
	lease *redlatch.Lease
	quiet func() bool // has the end of the lease not end the program
}

func (s *spoolLock) Lock() {
	s.local.Lock()
	for {
		lease, err := s.mutex.Lock(context.Background())
		switch {
		case err == nil:
			s.quiet = context.AfterFunc(lease.Context(), func() { log.Fatal(lease.Err()) })
			s.lease = lease
			return
		case errors.Is(err, redlatch.ErrTaken), errors.Is(err, redlatch.ErrUnreachable):
			log.Print(err) // MaxWait has passed, or Redis does not answer
			time.Sleep(200 * time.Millisecond)
		default:
			log.Fatal(err) // to try again cannot help
		}
	}
}

func (s *spoolLock) Unlock() {
	defer s.local.Unlock()
	s.quiet()
	if err := s.lease.Release(context.Background()); errors.Is(err, redlatch.ErrNotHeld) {
		log.Fatal(err) // Redis says so only now
	} else if err != nil {
		log.Print(err) // the client goes on trying
	}
}

// A condition variable wants a sync.Locker.
func ExampleMutex_Lock_syncLocker() {
	client := connect()
	defer client.Close()

	turn := sync.NewCond(&spoolLock{mutex: client.Mutex("spool")})
	turn.L.Lock()
	fmt.Println("locked")
	turn.L.Unlock()
	// Output: locked
}

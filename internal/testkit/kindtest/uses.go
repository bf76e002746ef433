package kindtest

import (
	"context"
	"errors"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/testkit/check"
)

// Use is a call of a client beside those of [Lock]. Another client, which may have more rights, helps.
type Use func(ctx context.Context, c, other *redlatch.Client, name string) error

// Uses returns what a client of one server can do with locks beside acquiring, extending and releasing.
func Uses() map[string]Use {
	return map[string]Use{
		"MultiMutex": func(ctx context.Context, c, _ *redlatch.Client, name string) error {
			return c.MultiMutex(name, name+"2").Do(ctx, func(context.Context, *redlatch.MultiLease) error { return nil })
		},
		"Lock of what is held": func(ctx context.Context, c, other *redlatch.Client, name string) error {
			return other.Mutex(name).Do(ctx, func(ctx context.Context, _ *redlatch.Lease) error {
				return check.ErrorOf(c.Mutex(name).Lock(ctx))
			})
		},
		"Detach and Adopt": func(ctx context.Context, c, _ *redlatch.Client, name string) error {
			return whileHeld(ctx, c.Mutex(name), func(l *redlatch.Lease) error {
				text, err := l.Detach(ctx)
				if err != nil {
					return err
				}
				adopted, err := c.Adopt(ctx, text, redlatch.LockOptions{})
				if err != nil {
					return err
				}
				return adopted.Release(ctx)
			})
		},
		"TakeByForce": func(ctx context.Context, c, other *redlatch.Client, name string) error {
			return whileHeld(ctx, other.Mutex(name), func(l *redlatch.Lease) error {
				return check.ErrorOf(c.Mutex(name).TakeByForce(ctx, redlatch.ForceOptions{Owner: l.Owner()}))
			})
		},
		"ForceRelease": func(ctx context.Context, c, other *redlatch.Client, name string) error {
			return whileHeld(ctx, other.Mutex(name), func(l *redlatch.Lease) error {
				return check.ErrorOf(c.ForceRelease(ctx, name, redlatch.ForceOptions{Owner: l.Owner()}))
			})
		},
		"ExtendTo": func(ctx context.Context, c, _ *redlatch.Client, name string) error {
			return whileHeld(ctx, c.Mutex(name), func(l *redlatch.Lease) error { return l.ExtendTo(ctx, time.Second) })
		},
		"Wanted": func(ctx context.Context, c, _ *redlatch.Client, name string) error {
			return whileHeld(ctx, c.Mutex(name), func(l *redlatch.Lease) error {
				l.Wanted() // it returns no error
				time.Sleep(50 * time.Millisecond)
				return l.Extend(ctx)
			})
		},
		"Proclaim": func(ctx context.Context, c, _ *redlatch.Client, name string) error {
			e := c.Election(name)
			l, err := e.Campaign(ctx, "one")
			if err == nil {
				err = errors.Join(e.Proclaim(ctx, l, "two"), l.Release(ctx))
			}
			return err
		},
		"Resize": func(ctx context.Context, c, _ *redlatch.Client, name string) error {
			return c.Semaphore(name, 3).Do(ctx, 1, func(ctx context.Context, _ *redlatch.Lease) error {
				return check.ErrorOf(c.Semaphore(name, 3).Resize(ctx, 4))
			})
		},
		"Downgrade": func(ctx context.Context, c, _ *redlatch.Client, name string) error {
			return c.RWMutex(name).Do(ctx, func(ctx context.Context, l *redlatch.Lease) error {
				read, err := c.RWMutex(name).Downgrade(ctx, l)
				if err == nil {
					err = read.Release(ctx)
				}
				return err
			})
		},
		"MinHold": func(ctx context.Context, c, _ *redlatch.Client, name string) error {
			m := c.ReentrantMutex(name).With(redlatch.LockOptions{MinHold: time.Second})
			return m.Do(ctx, func(context.Context, *redlatch.Lease) error { return nil })
		},
		"Replicas": func(ctx context.Context, c, _ *redlatch.Client, name string) error {
			m := c.Mutex(name).With(redlatch.LockOptions{Replicas: 1})
			return m.Do(ctx, func(context.Context, *redlatch.Lease) error { return nil })
		},
		"Job": func(ctx context.Context, c, _ *redlatch.Client, name string) error {
			job := c.Job(name, redlatch.JobOptions{Window: time.Second})
			return check.ErrorOf(job.Do(ctx, func(context.Context, *redlatch.Lease) error { return nil }))
		},
		"TrySetCount": func(ctx context.Context, c, _ *redlatch.Client, name string) error {
			d := c.CountDownLatch(name)
			return errors.Join(check.ErrorOf(d.TrySetCount(ctx, 1, time.Hour)), d.Delete(ctx))
		},
		"CountDown": func(ctx context.Context, c, other *redlatch.Client, name string) error {
			d := c.CountDownLatch(name)
			_, err := other.CountDownLatch(name).TrySetCount(ctx, 2, time.Hour)
			return errors.Join(err, check.ErrorOf(d.CountDownOnce(ctx, "id")), check.ErrorOf(d.CountDown(ctx)))
		},
		"Await": func(ctx context.Context, c, other *redlatch.Client, name string) error {
			_, err := other.CountDownLatch(name).TrySetCount(ctx, 1, time.Hour)
			return errors.Join(err, c.CountDownLatch(name).Await(ctx))
		},
		"List": func(ctx context.Context, c, _ *redlatch.Client, _ string) error {
			for _, err := range c.List(ctx, redlatch.ListOptions{}) {
				if err != nil {
					return err
				}
			}
			return nil
		},
		"Journal": func(ctx context.Context, c, _ *redlatch.Client, _ string) error {
			for _, err := range c.Journal(ctx, redlatch.JournalQuery{}) {
				if err != nil {
					return err
				}
			}
			return nil
		},
	}
}

// whileHeld calls f while a mutex is held, which f may give away.
func whileHeld(ctx context.Context, m *redlatch.Mutex, f func(l *redlatch.Lease) error) error {
	err := m.Do(ctx, func(_ context.Context, l *redlatch.Lease) error { return f(l) })
	if errors.Is(err, redlatch.ErrNotHeld) {
		return nil
	}
	return err
}

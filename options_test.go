package redlatch_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/internal/testkit/check"
)

// nowhere is a connection that must not be used.
type nowhere struct{ conn.Conn }

func (nowhere) Close() error        { return nil }
func (nowhere) Target() conn.Target { return conn.Target{Addr: "nowhere"} }

// replicatedNowhere is one that could wait for replicas.
type replicatedNowhere struct{ nowhere }

func (replicatedNowhere) EvalReplicated(context.Context, conn.Call, int, time.Duration) (conn.Result, int) {
	panic("used")
}

func TestOptionsThatMakeNoSense(t *testing.T) {
	t.Parallel()
	for want, o := range map[string]redlatch.Options{
		"control character":   {Prefix: redlatch.NoPrefix + ":"},
		"Options.Prefix":      {Prefix: "a\n"},
		"brace":               {Prefix: "a{"},
		"LockOptions.TTL":     {Lock: redlatch.LockOptions{TTL: -time.Second}},
		"is 1ms":              {Lock: redlatch.LockOptions{TTL: time.Millisecond}},
		"24h":                 {Lock: redlatch.LockOptions{TTL: 25 * time.Hour}},
		"LockOptions.MaxWait": {Lock: redlatch.LockOptions{MaxWait: -2}},
		"LockOptions.MaxHold": {Lock: redlatch.LockOptions{MaxHold: -2}},
		"MinHold is -2":       {Lock: redlatch.LockOptions{MinHold: -2}},
		"MinHold is 24h0m1s":  {Lock: redlatch.LockOptions{MinHold: 24*time.Hour + time.Second}},
		"MaxWaiters is -2":    {Lock: redlatch.LockOptions{MaxWaiters: -2}},
		"MaxWaiters is 1001":  {Lock: redlatch.LockOptions{MaxWaiters: 1001}},
		"Heartbeat":           {Heartbeat: time.Nanosecond},
		"RequestTimeout":      {RequestTimeout: -1},
		"FenceTTL":            {FenceTTL: time.Second},
	} {
		c, err := redlatch.New(nowhere{}, o)
		if !errors.Is(err, redlatch.ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("New(%+v) = %v, %v, want ErrInvalid that tells of %q", o, c, err, want)
		}
	}
}

// TestNegativeMaxHold: TryLock, which the error of a negative MaxWait names, does not bound a hold.
func TestNegativeMaxHold(t *testing.T) {
	t.Parallel()
	for option, o := range map[string]redlatch.LockOptions{"TryLock": {MaxWait: -2}, "None for no bound": {MaxHold: -2}} {
		_, err := redlatch.New(nowhere{}, redlatch.Options{Lock: o})
		check.That(t, err != nil && strings.HasSuffix(err.Error(), option) == (o.MaxHold != 0), "New(%+v) = %v", o, err)
	}
}

// TestOptionsAreSwitchedOff: what a client has as its default, a lock can do without.
func TestOptionsAreSwitchedOff(t *testing.T) {
	t.Parallel()
	everything := redlatch.LockOptions{
		TTL: time.Second, Renew: redlatch.Off, MaxHold: time.Hour, Replicas: 1, MaxWait: time.Minute, MaxWaiters: 9, MinHold: time.Second,
		StrictOrder: redlatch.On,
	}
	c := check.Value(redlatch.New(replicatedNowhere{}, redlatch.Options{Lock: everything})).OK(t)
	defer c.Close()
	m := c.Mutex("a")
	check.Equal(t, m.Options(), everything, "Options")
	nothing := redlatch.LockOptions{
		Renew: redlatch.On, MaxHold: redlatch.None, Replicas: redlatch.None, MaxWait: redlatch.None, MaxWaiters: redlatch.None, MinHold: redlatch.None,
		StrictOrder: redlatch.Off,
	}
	m = m.With(nothing)
	want := redlatch.LockOptions{TTL: time.Second, Renew: redlatch.On, StrictOrder: redlatch.Off}
	check.Equal(t, m.Options(), want, "switched off: Options")
	check.Equal(t, m.With(everything).Options(), everything, "switched on again: Options")
}

// TestReplicasNeedAnAdapterThatWaits: an adapter may lack it, and a client must not find out when
// it holds the lock.
func TestReplicasNeedAnAdapterThatWaits(t *testing.T) {
	t.Parallel()
	o := redlatch.LockOptions{Replicas: 1}
	check.Error(t, "New", check.ErrorOf(redlatch.New(nowhere{}, redlatch.Options{Lock: o})), redlatch.ErrInvalid, errors.ErrUnsupported)
	c := check.Value(redlatch.New(nowhere{}, redlatch.Options{})).OK(t)
	defer c.Close()
	check.Error(t, "Lock", check.ErrorOf(c.Mutex("a").With(o).Lock(t.Context())), redlatch.ErrInvalid, errors.ErrUnsupported)
}

func TestNoConnection(t *testing.T) {
	t.Parallel()
	check.Error(t, "New(nil)", check.ErrorOf(redlatch.New(nil, redlatch.Options{})), redlatch.ErrInvalid)
	check.Error(t, "NewQuorum of three that are nil", check.ErrorOf(redlatch.NewQuorum(make([]conn.Conn, 3), redlatch.Options{})), redlatch.ErrInvalid)
}

// TestNothingIsSentForBadInput uses a connection that panics when it is used.
func TestNothingIsSentForBadInput(t *testing.T) {
	t.Parallel()
	c := check.Value(redlatch.New(nowhere{}, redlatch.Options{})).OK(t)
	defer c.Close()
	ctx := t.Context()
	for _, name := range []string{"", strings.Repeat("n", 513-len("redlatch:")), strings.Repeat("n", 4096), "a\x00", "a\r\n", "{", "a{}b", "{x}:queue", "\xff"} {
		m := c.Mutex(name)
		_, lockErr := m.Lock(ctx)
		_, tryErr := m.TryLock(ctx)
		doErr := m.Do(ctx, func(context.Context, *redlatch.Lease) error { t.Error("Do called its function"); return nil })
		_, inspectErr := c.Inspect(ctx, name)
		_, forceErr := c.ForceRelease(ctx, name, redlatch.ForceOptions{})
		for _, err := range []error{lockErr, tryErr, doErr, inspectErr, forceErr} {
			check.That(t, errors.Is(err, redlatch.ErrInvalid) && len(err.Error()) < 250, "%.20q: %v, want ErrInvalid, and a short text", name, err)
		}
	}
	for _, o := range []redlatch.LockOptions{{TTL: -1}, {TTL: time.Microsecond}, {TTL: 1000 * time.Hour}, {MaxWait: -2}, {MaxHold: -2}} {
		check.Error(t, fmt.Sprintf("With(%+v).Lock", o), check.ErrorOf(c.Mutex("a").With(o).Lock(ctx)), redlatch.ErrInvalid)
	}
	for _, reason := range []string{"a\nb", strings.Repeat("x", 257), "\xff"} {
		_, err := c.ForceRelease(ctx, "a", redlatch.ForceOptions{Reason: reason})
		check.Error(t, fmt.Sprintf("ForceRelease for %.10q", reason), err, redlatch.ErrInvalid)
	}
	done, cancel := context.WithCancel(ctx)
	cancel()
	check.Error(t, "TryLock with a done context", check.ErrorOf(c.Mutex("a").TryLock(done)), context.Canceled)
}

func TestURLsThatCannotBeUsed(t *testing.T) {
	t.Parallel()
	for _, url := range []string{"", "localhost:6379", "http://localhost", "redis://:secret@localhost:6379/a/b", "redis://u:secret@%zz", "redis://:secret@h:6379/x"} {
		c, err := redlatch.Open(t.Context(), url, redlatch.Options{})
		if !errors.Is(err, redlatch.ErrInvalid) || strings.Contains(err.Error(), "secret") {
			t.Errorf("Open(%q) = %v, %v, want ErrInvalid without the password", url, c, err)
		}
	}
	_, err := redlatch.Open(t.Context(), "redis://localhost:6379", redlatch.Options{TLS: &tls.Config{}})
	check.That(t, errors.Is(err, redlatch.ErrInvalid), "Open of redis:// with TLS = %v, want ErrInvalid", err)
	_, err = redlatch.Open(t.Context(), "redis://:secret@127.0.0.1:1", redlatch.Options{})
	if !errors.Is(err, redlatch.ErrUnreachable) || strings.Count(err.Error(), "127.0.0.1:1") != 1 || strings.Contains(err.Error(), "secret") {
		t.Errorf("Open where nobody listens = %v, want ErrUnreachable with the address, once, and without the password", err)
	}
}

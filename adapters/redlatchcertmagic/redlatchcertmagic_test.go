package redlatchcertmagic_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/caddyserver/certmagic"
	"go.uber.org/zap"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/adapters/redlatchcertmagic"
	"github.com/redlatch/redlatch/internal/testkit/check"
	"github.com/redlatch/redlatch/internal/testkit/locktest"
	"github.com/redlatch/redlatch/internal/testkit/proctest"
	"github.com/redlatch/redlatch/internal/testkit/redistest"
)

// url names the Redis server of the examples, as redis://localhost:6379 would.
var url string

func TestMain(m *testing.M) {
	proctest.Main(map[string]proctest.Role{"server": serve})
	os.Exit(redistest.Main(m, func(s *redistest.Server) { url = s.URL() }))
}

// authority is an issuer of certmagic. It says when it is asked, and takes its time.
type authority struct{ takes time.Duration }

func (authority) IssuerKey() string { return "test" }

// Issue signs a certificate with a key of the moment.
func (a authority) Issue(ctx context.Context, request *x509.CertificateRequest) (*certmagic.IssuedCertificate, error) {
	fmt.Println("issue")
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-time.After(a.takes):
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), DNSNames: request.DNSNames,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(90 * 24 * time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, request.PublicKey, key)
	if err != nil {
		return nil, err
	}
	return &certmagic.IssuedCertificate{Certificate: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})}, nil
}

// serverTTL is the lease of a process that serves. A pause of the machine that is shorter costs it
// nothing.
const serverTTL = 3 * time.Second

// serve is a process that wants the certificate of one domain: url, directory, how long the issuer
// takes.
func serve(arguments []string) error {
	ctx := context.Background()
	takes, err := time.ParseDuration(arguments[2])
	if err != nil {
		return err
	}
	client, err := redlatch.Open(ctx, arguments[0], redlatch.Options{Lock: redlatch.LockOptions{TTL: serverTTL}})
	if err != nil {
		return err
	}
	storage := redlatchcertmagic.Wrap(&certmagic.FileStorage{Path: arguments[1]}, client, redlatchcertmagic.Options{})
	var config *certmagic.Config
	cache := certmagic.NewCache(certmagic.CacheOptions{
		GetConfigForCert: func(certmagic.Certificate) (*certmagic.Config, error) { return config, nil },
		Logger:           zap.NewNop(),
	})
	config = certmagic.New(cache, certmagic.Config{
		Storage: storage, Issuers: []certmagic.Issuer{authority{takes}}, Logger: zap.NewNop(),
		OCSP: certmagic.OCSPConfig{DisableStapling: true},
	})
	fmt.Println("wants")
	if err := config.ManageSync(ctx, []string{"example.test"}); err != nil {
		return err
	}
	fmt.Println("has it")
	return nil
}

// TestOneObtains: of two processes that want a certificate, one asks the issuer, and the other takes
// what the first has stored.
func TestOneObtains(t *testing.T) {
	t.Parallel()
	s, dir := redistest.Start(t), t.TempDir()
	one := proctest.Start(t, "server", s.URL(), dir, "500ms")
	one.Expect("issue")
	two := proctest.Start(t, "server", s.URL(), dir, "500ms")
	two.Expect("wants")
	one.Expect("has it")
	for line := two.Next(); line != "has it"; line = two.Next() {
		t.Errorf("the second process says %q", line)
	}
}

// TestKilled: a process that is killed while the issuer works costs the others its lease.
func TestKilled(t *testing.T) {
	t.Parallel()
	s, dir := redistest.Start(t), t.TempDir()
	one := proctest.Start(t, "server", s.URL(), dir, "1h")
	one.Expect("issue")
	two := proctest.Start(t, "server", s.URL(), dir, "0s")
	two.Expect("wants")
	const lock = "certmagic:issue_cert_example.test"
	locktest.InLine(t, s, lock, 1)
	extended, last := 0, 0
	locktest.Eventually(t, "three extends, which are the TTL together", func() bool {
		left := check.Value(strconv.Atoi(s.Do("PTTL", locktest.StateKey(lock)))).OK(t)
		if last > 0 && left > last {
			extended++
		}
		last = left
		return extended == 3
	})
	if said := two.Said(); len(said) > 0 {
		t.Fatalf("the second process says %q while the first obtains", said)
	}
	one.Kill()
	two.Expect("issue")
	two.Expect("has it")
}

// TestLocks: what certmagic may ask of a lock that is free, taken or lost.
func TestLocks(t *testing.T) {
	t.Parallel()
	s, client := locktest.Start(t, redlatch.Options{})
	one := redlatchcertmagic.Wrap(nil, client, redlatchcertmagic.Options{})
	two := redlatchcertmagic.Wrap(nil, locktest.Open(t, s.URL(), redlatch.Options{}), redlatchcertmagic.Options{})
	ctx := t.Context()
	check.OK(t, "Lock", one.Lock(ctx, "a"))
	check.Nil(t, "RenewLockLease", one.RenewLockLease(ctx, "a", time.Hour))
	if ok, err := two.TryLock(ctx, "a"); ok || err != nil {
		t.Errorf("TryLock = %t, %v of a lock that is taken", ok, err)
	}
	if err := two.Unlock(ctx, "a"); !errors.Is(err, redlatch.ErrNotHeld) {
		t.Errorf("Unlock = %v of a lock of another, want ErrNotHeld", err)
	}
	check.Nil(t, "Unlock", one.Unlock(ctx, "a"))
	if ok, err := two.TryLock(ctx, "a"); !ok || err != nil {
		t.Errorf("TryLock = %t, %v of a lock that is free", ok, err)
	}
	check.OK(t, "ForceRelease", check.ErrorOf(client.ForceRelease(ctx, "certmagic:a", redlatch.ForceOptions{})))
	check.Nil(t, "RenewLockLease of a lost lock", two.RenewLockLease(ctx, "a", time.Hour))
	check.Nil(t, "Unlock", two.Unlock(ctx, "a"))
	if err := one.Lock(ctx, "a"); err != nil {
		t.Errorf("Lock = %v after the loss of another", err)
	}
	ended, cancel := context.WithCancel(ctx)
	time.AfterFunc(10*time.Millisecond, cancel)
	check.Error(t, "Lock", two.Lock(ended, "a"), context.Canceled)
	check.Nil(t, "Unlock", one.Unlock(ended, "a"))
	check.Error(t, "Unlock", one.Unlock(ctx, "a"), redlatch.ErrNotHeld)
}

// TestUnlockByName: certmagic unlocks by a name alone. A goroutine that has lost the lock does not
// unlock what another goroutine of its process has since then.
func TestUnlockByName(t *testing.T) {
	t.Parallel()
	_, client := locktest.Start(t, redlatch.Options{})
	one, two := redlatchcertmagic.Wrap(nil, client, redlatchcertmagic.Options{}), redlatchcertmagic.Wrap(nil, client, redlatchcertmagic.Options{})
	ctx := t.Context()
	check.OK(t, "Lock", one.Lock(ctx, "a"))
	check.OK(t, "ForceRelease", check.ErrorOf(client.ForceRelease(ctx, "certmagic:a", redlatch.ForceOptions{})))
	check.OK(t, "Lock", one.Lock(ctx, "a"))
	check.Error(t, "Unlock", one.Unlock(ctx, "a"), redlatch.ErrNotHeld)
	if ok, err := two.TryLock(ctx, "a"); ok || err != nil {
		t.Errorf("TryLock = %t, %v beside the second goroutine", ok, err)
	}
	check.Nil(t, "Unlock", one.Unlock(ctx, "a"))
}

// TestOutage: without Redis, certmagic is told so by each call. Its attempts, of which each begins
// with RenewLockLease, go on as soon as the lock is free again.
func TestOutage(t *testing.T) {
	locktest.Outages(t, func(t *testing.T, s *redistest.Server, goes, comes func()) {
		o := redlatch.Options{RequestTimeout: 300 * time.Millisecond, Lock: redlatch.LockOptions{TTL: time.Second}}
		one := redlatchcertmagic.Wrap(nil, locktest.Open(t, s.URL(), o), redlatchcertmagic.Options{})
		two := redlatchcertmagic.Wrap(nil, locktest.Open(t, s.URL(), o), redlatchcertmagic.Options{})
		ctx := t.Context()
		renew := func() error { return one.RenewLockLease(ctx, "a", time.Hour) }
		check.OK(t, "Lock", one.Lock(ctx, "a"))
		goes()
		check.Error(t, "Lock", two.Lock(ctx, "a"), redlatch.ErrUnreachable)
		check.Error(t, "TryLock", check.ErrorOf(two.TryLock(ctx, "a")), redlatch.ErrUnreachable)
		locktest.Eventually(t, "the lock is lost", func() bool { return errors.Is(renew(), redlatch.ErrNotHeld) })
		check.Error(t, "RenewLockLease", renew(), redlatch.ErrNotHeld, redlatch.ErrUnreachable)
		comes()
		locktest.Eventually(t, "another has the lock", func() bool { return two.Lock(ctx, "a") == nil })
		check.Error(t, "RenewLockLease", renew(), redlatch.ErrNotHeld)
		locktest.Eventually(t, "the next attempt has the lock", func() bool {
			_ = two.Unlock(ctx, "a")
			return renew() == nil
		})
	})
}

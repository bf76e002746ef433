package redlatchcertmagic_test

import (
	"bytes"
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
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/certmagic"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/adapters/redlatchcertmagic"
	"github.com/redlatch/redlatch/internal/testkit/check"
	"github.com/redlatch/redlatch/internal/testkit/locktest"
	"github.com/redlatch/redlatch/internal/testkit/redistest"
)

// url names the Redis server of the examples, as redis://localhost:6379 would.
var url string

func TestMain(m *testing.M) {
	os.Exit(redistest.Main(m, func(s *redistest.Server) { url = s.URL() }))
}

// authority is an issuer of certmagic. It tells when it is asked, and answers when it may.
type authority struct{ asked, may chan struct{} }

func newAuthority() authority { return authority{make(chan struct{}, 10), make(chan struct{})} }

func (authority) IssuerKey() string { return "test" }

// Issue signs a certificate with a key of the moment.
func (a authority) Issue(ctx context.Context, request *x509.CertificateRequest) (*certmagic.IssuedCertificate, error) {
	a.asked <- struct{}{}
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-a.may:
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

// obtain has a process want the certificate of one domain, with a client and an issuer of its own.
func obtain(t *testing.T, client *redlatch.Client, dir string, a authority) (got chan error) {
	t.Helper()
	storage := redlatchcertmagic.Wrap(&certmagic.FileStorage{Path: dir}, client, redlatchcertmagic.Options{})
	var config *certmagic.Config
	cache := certmagic.NewCache(certmagic.CacheOptions{
		GetConfigForCert: func(certmagic.Certificate) (*certmagic.Config, error) { return config, nil },
		Logger:           zap.NewNop(),
	})
	t.Cleanup(cache.Stop)
	config = certmagic.New(cache, certmagic.Config{
		Storage: storage, Issuers: []certmagic.Issuer{a}, Logger: zap.NewNop(),
		OCSP: certmagic.OCSPConfig{DisableStapling: true},
	})
	got = make(chan error, 1)
	go func() { got <- config.ManageSync(t.Context(), []string{"example.test"}) }()
	return got
}

// TestOneObtains: two clients want a certificate. The first asks the issuer, and the second waits and takes
// the certificate that the first has stored. If the first client ends without a word, the second asks the
// issuer when the lease has run out.
func TestOneObtains(t *testing.T) {
	t.Parallel()
	for _, crashes := range []bool{false, true} {
		t.Run(fmt.Sprintf("crashes=%t", crashes), func(t *testing.T) {
			t.Parallel()
			s, client, other := locktest.StartTwo(t, redlatch.Options{Lock: redlatch.LockOptions{TTL: 3 * time.Second}})
			dir, first, second := t.TempDir(), newAuthority(), newAuthority()
			close(second.may)
			one := obtain(t, client, dir, first)
			<-first.asked
			two := obtain(t, other, dir, second)
			locktest.InLine(t, s, "certmagic:issue_cert_example.test", 1)
			if crashes {
				check.OK(t, "Close", locktest.CloseLeaving(client))
				<-second.asked
			} else {
				close(first.may)
				check.OK(t, "the first", <-one)
			}
			check.OK(t, "the second", <-two)
			check.Equal(t, len(second.asked), 0, "more times that the second asks")
		})
	}
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

// secret is a storage with a password.
type secret struct {
	certmagic.Storage
	Password string
}

// discreet says of itself what may be logged.
type discreet struct{ secret }

func (discreet) String() string { return "a bucket" }

// TestLogOfAStorage: certmagic logs its storage, and the password is not in what is written.
func TestLogOfAStorage(t *testing.T) {
	t.Parallel()
	client := locktest.Open(t, url, redlatch.Options{})
	for want, inside := range map[string]certmagic.Storage{
		"a bucket, with locks on Redis":                      discreet{secret{Password: "hunter2"}},
		"redlatchcertmagic_test.secret, with locks on Redis": secret{Password: "hunter2"},
	} {
		var text bytes.Buffer
		encoder := zapcore.NewJSONEncoder(zapcore.EncoderConfig{})
		log := zap.New(zapcore.NewCore(encoder, zapcore.AddSync(&text), zap.InfoLevel))
		log.Info("cleaning", zap.Any("storage", redlatchcertmagic.Wrap(inside, client, redlatchcertmagic.Options{})))
		check.That(t, strings.Contains(text.String(), want) && !strings.Contains(text.String(), "hunter2"), "logged %s", &text)
	}
}

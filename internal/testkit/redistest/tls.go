package redistest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/redlatch/redlatch/internal/testkit/check"
)

// StartTLS is [Start] for a server that speaks only TLS, with a certificate made for it. The
// configuration is what a client needs to trust it. The server asks clients for no certificate.
func StartTLS(t testing.TB, args ...string) (*Server, *tls.Config) {
	t.Helper()
	s, config, _, _ := startTLS(t, "no", args)
	config.Certificates = nil
	return s, config
}

// StartMutualTLS is [StartTLS] for a server that also asks clients for a certificate. It returns
// the PEM files that a client needs.
func StartMutualTLS(t testing.TB, args ...string) (s *Server, ca, cert, key string) {
	t.Helper()
	s, _, cert, key = startTLS(t, "yes", args)
	return s, cert, cert, key
}

func startTLS(t testing.TB, asks string, args []string) (s *Server, config *tls.Config, cert, key string) {
	t.Helper()
	dir := t.TempDir()
	cert, key = filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
	config = check.Value(Certificate(cert, key)).OK(t)
	files := []string{"--tls-ca-cert-file", cert, "--tls-cert-file", cert, "--tls-key-file", key, "--tls-auth-clients", asks}
	return start(t, dir, config, append(files, args...)), config, cert, key
}

// Certificate writes a self-signed certificate for a server and for its clients, and returns the
// configuration of a client that has it.
func Certificate(cert, key string) (*tls.Config, error) {
	pair, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, DNSNames: []string{"localhost"},
	}
	signed, err := x509.CreateCertificate(rand.Reader, template, template, pair.Public(), pair)
	if err != nil {
		return nil, err
	}
	private, err := x509.MarshalPKCS8PrivateKey(pair)
	if err = errors.Join(err, writePEM(cert, "CERTIFICATE", signed), writePEM(key, "PRIVATE KEY", private)); err != nil {
		return nil, err
	}
	whole, err := tls.LoadX509KeyPair(cert, key)
	roots := x509.NewCertPool()
	roots.AddCert(whole.Leaf)
	return &tls.Config{RootCAs: roots, ServerName: "127.0.0.1", Certificates: []tls.Certificate{whole}}, err
}

func writePEM(path, kind string, der []byte) error {
	return os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600)
}

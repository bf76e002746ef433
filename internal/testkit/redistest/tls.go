package redistest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
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

// StartTLS is [Start] for a server that speaks TLS alone, with a certificate of an authority made
// up for it. The configuration is what a client needs to trust it; certificates of clients are not
// asked for.
func StartTLS(t testing.TB, args ...string) (*Server, *tls.Config) {
	t.Helper()
	s, config, _ := startTLS(t, "no", args)
	return s, config
}

// StartMutualTLS is [StartTLS] for a server that also asks clients for a certificate. It returns
// the PEM files that a client needs.
func StartMutualTLS(t testing.TB, args ...string) (s *Server, ca, cert, key string) {
	t.Helper()
	s, _, dir := startTLS(t, "yes", args)
	return s, filepath.Join(dir, "ca.crt"), filepath.Join(dir, "client.crt"), filepath.Join(dir, "client.key")
}

func startTLS(t testing.TB, asks string, args []string) (*Server, *tls.Config, string) {
	t.Helper()
	dir := t.TempDir()
	config := check.Value(certificates(dir)).OK(t)
	if asks == "no" {
		config.Certificates = nil
	}
	files := []string{
		"--tls-ca-cert-file", filepath.Join(dir, "ca.crt"), "--tls-cert-file", filepath.Join(dir, "server.crt"),
		"--tls-key-file", filepath.Join(dir, "server.key"), "--tls-auth-clients", asks,
	}
	return start(t, dir, config, append(files, args...)), config, dir
}

// certificates writes the files ca, server and client, .crt and .key, and returns the configuration
// of a client that has them.
func certificates(dir string) (*tls.Config, error) {
	var ca *x509.Certificate
	var caKey *ecdsa.PrivateKey
	for i, name := range []string{"ca", "server", "client"} {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			return nil, err
		}
		cert := &x509.Certificate{
			SerialNumber: big.NewInt(int64(1 + i)), Subject: pkix.Name{CommonName: name},
			NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
			KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
			IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, DNSNames: []string{"localhost"},
		}
		if name == "ca" {
			cert = &x509.Certificate{
				SerialNumber: cert.SerialNumber, Subject: pkix.Name{CommonName: "redistest authority"}, NotBefore: cert.NotBefore, NotAfter: cert.NotAfter,
				IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
			}
			ca, caKey = cert, key
		}
		signed, err := x509.CreateCertificate(rand.Reader, cert, ca, key.Public(), caKey)
		if err != nil {
			return nil, err
		}
		private, err := x509.MarshalPKCS8PrivateKey(key)
		err = errors.Join(err, writePEM(filepath.Join(dir, name+".crt"), "CERTIFICATE", signed), writePEM(filepath.Join(dir, name+".key"), "PRIVATE KEY", private))
		if err != nil {
			return nil, err
		}
	}
	roots := x509.NewCertPool()
	text, err := os.ReadFile(filepath.Join(dir, "ca.crt"))
	if err != nil {
		return nil, err
	}
	roots.AppendCertsFromPEM(text)
	client, err := tls.LoadX509KeyPair(filepath.Join(dir, "client.crt"), filepath.Join(dir, "client.key"))
	return &tls.Config{RootCAs: roots, ServerName: "127.0.0.1", Certificates: []tls.Certificate{client}}, err
}

func writePEM(path, kind string, der []byte) error {
	return os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600)
}

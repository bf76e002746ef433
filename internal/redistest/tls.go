package redistest

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// StartTLS is [Start] for a server that speaks TLS alone, with a certificate of an authority made up for it. The configuration is what a
// client needs to trust it; certificates of clients are not asked for.
func StartTLS(t testing.TB, args ...string) (*Server, *tls.Config) {
	t.Helper()
	dir := t.TempDir()
	roots, err := writeCertificates(dir)
	if err != nil {
		t.Fatalf("redistest: certificates: %v", err)
	}
	config := &tls.Config{RootCAs: roots, ServerName: "127.0.0.1"}
	files := []string{
		"--tls-ca-cert-file", filepath.Join(dir, "ca.crt"), "--tls-cert-file", filepath.Join(dir, "server.crt"),
		"--tls-key-file", filepath.Join(dir, "server.key"), "--tls-auth-clients", "no",
	}
	return start(t, dir, config, append(files, args...)), config
}

// writeCertificates writes ca.crt, server.crt and server.key, and returns the pool that trusts them.
func writeCertificates(dir string) (*x509.CertPool, error) {
	ca := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "redistest authority"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	server := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "127.0.0.1"},
		NotBefore: ca.NotBefore, NotAfter: ca.NotAfter,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, DNSNames: []string{"localhost"},
	}
	caKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	serverKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	if err := writeCertificate(filepath.Join(dir, "ca.crt"), ca, ca, caKey.Public(), caKey); err != nil {
		return nil, err
	}
	if err := writeCertificate(filepath.Join(dir, "server.crt"), server, ca, serverKey.Public(), caKey); err != nil {
		return nil, err
	}
	if err := writeKey(filepath.Join(dir, "server.key"), serverKey); err != nil {
		return nil, err
	}
	return readPool(filepath.Join(dir, "ca.crt"))
}

func writeCertificate(path string, cert, issuer *x509.Certificate, public crypto.PublicKey, signer crypto.Signer) error {
	der, err := x509.CreateCertificate(rand.Reader, cert, issuer, public, signer)
	if err != nil {
		return err
	}
	return os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600)
}

func writeKey(path string, key *ecdsa.PrivateKey) error {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	return os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), 0o600)
}

func readPool(path string) (*x509.CertPool, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(text)
	return pool, nil
}

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

// StartTLS is [Start] for a server that speaks TLS alone, with a certificate of an authority made
// up for it. The configuration is what a client needs to trust it; certificates of clients are not
// asked for.
func StartTLS(t testing.TB, args ...string) (*Server, *tls.Config) {
	t.Helper()
	dir := t.TempDir()
	config, err := certificates(dir)
	if err != nil {
		t.Fatalf("redistest: certificates: %v", err)
	}
	config.Certificates = nil
	return start(t, dir, config, append(serverFiles(dir), append([]string{"--tls-auth-clients", "no"}, args...)...)), config
}

// StartMutualTLS is [StartTLS] for a server that also asks clients for a certificate. It returns
// the PEM files that a client needs.
func StartMutualTLS(t testing.TB, args ...string) (s *Server, ca, cert, key string) {
	t.Helper()
	dir := t.TempDir()
	config, err := certificates(dir)
	if err != nil {
		t.Fatalf("redistest: certificates: %v", err)
	}
	s = start(t, dir, config, append(serverFiles(dir), append([]string{"--tls-auth-clients", "yes"}, args...)...))
	return s, filepath.Join(dir, "ca.crt"), filepath.Join(dir, "client.crt"), filepath.Join(dir, "client.key")
}

func serverFiles(dir string) []string {
	return []string{
		"--tls-ca-cert-file", filepath.Join(dir, "ca.crt"), "--tls-cert-file", filepath.Join(dir, "server.crt"),
		"--tls-key-file", filepath.Join(dir, "server.key"),
	}
}

// certificates writes the files ca, server and client, .crt and .key, and returns the configuration
// of a client that has them.
func certificates(dir string) (*tls.Config, error) {
	ca := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "redistest authority"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	caKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	if err := writeCertificate(filepath.Join(dir, "ca.crt"), ca, ca, caKey.Public(), caKey); err != nil {
		return nil, err
	}
	for i, name := range []string{"server", "client"} {
		cert := &x509.Certificate{
			SerialNumber: big.NewInt(int64(2 + i)), Subject: pkix.Name{CommonName: name}, NotBefore: ca.NotBefore, NotAfter: ca.NotAfter,
			KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
			IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, DNSNames: []string{"localhost"},
		}
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			return nil, err
		}
		if err := writeCertificate(filepath.Join(dir, name+".crt"), cert, ca, key.Public(), caKey); err != nil {
			return nil, err
		}
		if err := writeKey(filepath.Join(dir, name+".key"), key); err != nil {
			return nil, err
		}
	}
	roots, err := readPool(filepath.Join(dir, "ca.crt"))
	if err != nil {
		return nil, err
	}
	client, err := tls.LoadX509KeyPair(filepath.Join(dir, "client.crt"), filepath.Join(dir, "client.key"))
	return &tls.Config{RootCAs: roots, ServerName: "127.0.0.1", Certificates: []tls.Certificate{client}}, err
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

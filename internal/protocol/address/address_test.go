package address_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redlatch/redlatch/internal/protocol/address"
	"github.com/redlatch/redlatch/internal/testkit/check"
)

func TestWhatURLsMean(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		url            string
		hosts          []string
		user, password string
		db             int
		master         string
		secure         bool
		cluster        bool
	}{
		{url: "redis://", hosts: []string{"localhost:6379"}},
		{url: "redis://db1", hosts: []string{"db1:6379"}},
		{url: "redis://:1234/2", hosts: []string{"localhost:1234"}, db: 2},
		{url: "redis://u:p%40ss@db1:1/", hosts: []string{"db1:1"}, user: "u", password: "p@ss"},
		{url: "rediss://[::1]:7", hosts: []string{"[::1]:7"}, secure: true},
		{url: "redis://[::1]", hosts: []string{"[::1]:6379"}},
		{url: "unix:///run/r.sock?db=3", hosts: []string{"/run/r.sock"}, db: 3},
		{url: "unix://u:p@/run/r.sock", hosts: []string{"/run/r.sock"}, user: "u", password: "p"},
		{url: "redis+sentinel://a,b:2,c/main", hosts: []string{"a:26379", "b:2", "c:26379"}, master: "main"},
		{url: "rediss+sentinel://u:p@a:1,b:2/main/4", hosts: []string{"a:1", "b:2"}, user: "u", password: "p", master: "main", db: 4, secure: true},
		{url: "redis+cluster://a:1,b:2,[::1]:3", hosts: []string{"a:1", "b:2", "[::1]:3"}, cluster: true},
	} {
		o, cluster, err := address.Parse(c.url)
		if err != nil {
			t.Errorf("Parse(%q) = %v", c.url, err)
			continue
		}
		if !slices.Equal(o.InitAddress, c.hosts) || o.Username != c.user || o.Password != c.password || o.SelectDB != c.db ||
			o.Sentinel.MasterSet != c.master || (o.TLSConfig != nil) != c.secure || cluster != c.cluster {
			t.Errorf("Parse(%q) = hosts %q, user %q, password %q, db %d, master %q, TLS %t, cluster %t, want %+v", c.url,
				o.InitAddress, o.Username, o.Password, o.SelectDB, o.Sentinel.MasterSet, o.TLSConfig != nil, cluster, c)
		}
	}
}

func TestParameters(t *testing.T) {
	t.Parallel()
	o, _, err := address.Parse("redis+sentinel://a/m?dial_timeout=1s&write_timeout=2s&sentinel_username=u&sentinel_password=p")
	if err != nil || o.Dialer.Timeout != time.Second || o.ConnWriteTimeout != 2*time.Second || o.Sentinel.Username != "u" || o.Sentinel.Password != "p" {
		t.Errorf("timeouts %v, %v, sentinel user %q, password %q, %v", o.Dialer.Timeout, o.ConnWriteTimeout, o.Sentinel.Username, o.Sentinel.Password, err)
	}
}

func TestCertificates(t *testing.T) {
	t.Parallel()
	cert, key := selfSigned(t)
	o, _, err := address.Parse("rediss://a?ca=" + cert + "&cert=" + cert + "&key=" + key + "&server_name=b")
	if err != nil || o.TLSConfig.RootCAs == nil || len(o.TLSConfig.Certificates) != 1 || o.TLSConfig.ServerName != "b" {
		t.Errorf("Parse with certificates = %+v, %v, want them all", o.TLSConfig, err)
	}
	for query, want := range map[string]string{"ca=" + key: "no certificate", "cert=" + cert: "together", "cert=" + key + "&key=" + key: "cert and key"} {
		if _, _, err := address.Parse("rediss://u:hush@a?" + query); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Parse with %s = %v, want %q", query, err, want)
		}
	}
}

// selfSigned writes a certificate and its key.
func selfSigned(t *testing.T) (cert, key string) {
	t.Helper()
	private := check.Value(ecdsa.GenerateKey(elliptic.P256(), rand.Reader)).OK(t)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	public := check.Value(x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)).OK(t)
	secret := check.Value(x509.MarshalPKCS8PrivateKey(private)).OK(t)
	write := func(name, kind string, data []byte) string {
		file := filepath.Join(t.TempDir(), name)
		check.OK(t, "WriteFile", os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: data}), 0o600))
		return file
	}
	return write("cert.pem", "CERTIFICATE", public), write("key.pem", "PRIVATE KEY", secret)
}

func TestRefusedURLsShowNoPassword(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]string{
		"localhost:6379":                          "redis://",
		"http://u:hush@a":                         "http://",
		"redis://u:hush@a:b:c":                    "port",
		"redis://u:hush@a/x":                      "database number",
		"redis://u:hush@a/-1":                     "database number",
		"redis://u:hush@a/1/2":                    "redis://",
		"redis://u:hush@a,b":                      "commas are for",
		"redis+cluster://a:1,b:x":                 "port",
		"redis://u:hush@a:1,redis://u:hush@b:1":   "several URLs",
		"redis://u:hush@a%zz":                     "percent-encoded",
		"unix://":                                 "socket",
		"redis+sentinel://u:hush@a":               "master",
		"redis+sentinel:///m":                     "host",
		"redis+cluster://u:hush@a/1":              "cluster",
		"redis+cluster://":                        "host",
		"redis://u:hush@a?dial_timeout=soon":      "dial_timeout",
		"redis://u:hush@a?ca=x":                   "which may have dial_timeout, write_timeout",
		"redis://u:hush@a?sentinel_password=hush": "sentinel_password",
		"redis://u:1/hush@a":                      "percent-encoded",
		"redis://u:1?hush@a":                      "percent-encoded",
		"redis://u:1#hush@a":                      "percent-encoded",
		"redis+sentinel://u:1/x/hush@a":           "percent-encoded",
		"redis+sentinel://u:1/m/hush@a?x":         "percent-encoded",
		"redis://u:1?hush=x@a":                    "percent-encoded",
		"redis://u:1?dial_timeout=hush@a":         "percent-encoded",
		"unix://u:1/hush@/run/s?db=hush":          "percent-encoded",
		"rediss://u:1?ca=/hush@a":                 "percent-encoded",
		"redis://a:99999":                         "65535",
		"rediss://a?ca=/1&ca=/2":                  "more than once",
		"rediss://u:hush@a?ca=/none":              "/none",
		"rediss://u:hush@a?cert=/none":            "together",

		"redis+sentinel://a/m?sentinel%5Fpassword=hush":   "as it is",
		"redis+sentinel://a/m?sentinel_password=one hush": "as %20",
	} {
		_, _, err := address.Parse(url)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hush") {
			t.Errorf("Parse(%q) = %v, want a refusal with %q and without the password", url, err, want)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{"redis://u:p@h:1/0?dial_timeout=1s", "redis+sentinel://a,b/m/1", "unix:///x?db=1", "redis+cluster://a,,b", "rediss://[::1]:1", "://", "redis://@,/?#"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		o, _, err := address.Parse(text)
		check.That(t, err != nil || len(o.InitAddress) != 0, "Parse(%q) leads nowhere", text)
	})
}

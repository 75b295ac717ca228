// Package doorstest makes the files that say who may come in, for tests.
package doorstest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Entry is an entry of a tokens file for a token that is known by its secret. rest has its
// other members, as `"roles":["read"]`.
func Entry(name, secret, rest string) string {
	hash := sha256.Sum256([]byte(secret))
	return fmt.Sprintf(`{"name":%q,"sha256":"%s",%s}`, name, hex.EncodeToString(hash[:]), rest)
}

// WriteTokens writes a tokens file of the entries.
func WriteTokens(t testing.TB, path string, entries ...string) {
	t.Helper()
	Write(t, path, []byte(`{"tokens":[`+strings.Join(entries, ",\n")+`]}`))
}

// Write puts a file in the place of another in one step, as whoever mounts secrets does.
func Write(t testing.TB, path string, text []byte) {
	t.Helper()
	if err := os.WriteFile(path+".new", text, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

// Certificate is one that is its own authority, for a server on this machine and for a client.
type Certificate struct {
	CertPEM, KeyPEM []byte
	Pair            tls.Certificate
}

// NewCertificate makes one for a DNS name.
func NewCertificate(t testing.TB, name string) Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	c := Certificate{
		CertPEM: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		KeyPEM:  pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}),
	}
	if c.Pair, err = tls.X509KeyPair(c.CertPEM, c.KeyPEM); err != nil {
		t.Fatal(err)
	}
	return c
}

// WriteTo writes certificate and key to server.pem and server.key in a folder.
func (c Certificate) WriteTo(t testing.TB, folder string) (certFile, keyFile string) {
	t.Helper()
	certFile, keyFile = filepath.Join(folder, "server.pem"), filepath.Join(folder, "server.key")
	Write(t, certFile, c.CertPEM)
	Write(t, keyFile, c.KeyPEM)
	return certFile, keyFile
}

// Trust is what a client needs that trusts this certificate alone, and shows others.
func (c Certificate) Trust(shown ...Certificate) *tls.Config {
	roots := x509.NewCertPool()
	roots.AddCert(c.Pair.Leaf)
	config := &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
	for _, other := range shown {
		config.Certificates = append(config.Certificates, other.Pair)
	}
	return config
}

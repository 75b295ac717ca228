package server

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"

	"github.com/checkpointd/checkpointd/internal/doors"
)

// certificates are what TLS shows and trusts, as the files were when they were last valid.
type certificates struct{ *doors.Files[trust] }

// trust is what holds for new connections, and whose clients are believed.
type trust struct {
	config *tls.Config
	// authorities are those of client certificates, by their bytes.
	authorities map[string]bool
}

func openCertificates(config *Config) (*certificates, error) {
	paths := []string{config.TLSCert, config.TLSKey}
	if config.TLSClientCA != "" {
		paths = append(paths, config.TLSClientCA)
	}
	files, err := doors.OpenFiles(func(texts [][]byte, _ *trust) (*trust, func(), error) {
		next, err := newTrust(texts)
		return next, nil, err
	}, paths...)
	if err != nil {
		return nil, fmt.Errorf("--tls-…: %w", err)
	}
	return &certificates{files}, nil
}

// newTrust reads certificate, key and, where there is a third text, authorities.
func newTrust(texts [][]byte) (*trust, error) {
	pair, err := tls.X509KeyPair(texts[0], texts[1])
	if err != nil {
		return nil, fmt.Errorf("certificate and key: %w", err)
	}
	t := &trust{
		config:      &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}},
		authorities: map[string]bool{},
	}
	if len(texts) == 2 {
		return t, nil
	}
	t.config.ClientCAs, t.config.ClientAuth = x509.NewCertPool(), tls.VerifyClientCertIfGiven
	for block, rest := pem.Decode(texts[2]); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" {
			return nil, errors.New("the file of client authorities has something else than certificates")
		}
		authority, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("the file of client authorities: certificate %d: %w", len(t.authorities)+1, err)
		}
		t.config.ClientCAs.AddCert(authority)
		t.authorities[string(authority.Raw)] = true
	}
	if len(t.authorities) == 0 {
		return nil, errors.New("the file of client authorities has no certificate in PEM form")
	}
	return t, nil
}

// tls gives each connection what holds when it comes.
func (c *certificates) tls() *tls.Config {
	return &tls.Config{
		MinVersion:         tls.VersionTLS12,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return c.Current().config, nil },
	}
}

// trust tells whether the authority of a connection's client is one still. A connection
// without a client certificate has none to doubt.
func (c *certificates) trust(connection *tls.ConnectionState) bool {
	if len(connection.VerifiedChains) == 0 {
		return true
	}
	authorities := c.Current().authorities
	for _, chain := range connection.VerifiedChains {
		if authorities[string(chain[len(chain)-1].Raw)] {
			return true
		}
	}
	return false
}

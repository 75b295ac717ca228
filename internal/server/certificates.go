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
	// authorities are those of client certificates, by their bytes. A channel is closed when its
	// authority is none any more.
	authorities map[string]chan struct{}
}

func openCertificates(config *Config) (*certificates, error) {
	paths := []string{config.TLSCert, config.TLSKey}
	if config.TLSClientCA != "" {
		paths = append(paths, config.TLSClientCA)
	}
	files, err := doors.OpenFiles(func(texts [][]byte, old *trust) (*trust, func(), error) {
		next, err := newTrust(texts)
		if err != nil {
			return nil, nil, err
		}
		return next, next.follow(old), nil
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
		authorities: map[string]chan struct{}{},
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
		t.authorities[string(authority.Raw)] = make(chan struct{})
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

// follow keeps what those wait for whose authority stays, and gives what tells the others.
func (t *trust) follow(old *trust) (tell func()) {
	if old == nil {
		return nil
	}
	var gone []chan struct{}
	for authority, ends := range old.authorities {
		if _, stays := t.authorities[authority]; stays {
			t.authorities[authority] = ends
		} else {
			gone = append(gone, ends)
		}
	}
	return func() {
		for _, ends := range gone {
			close(ends)
		}
	}
}

// trust tells whether the authority of a connection's client is one still, and gives what is closed
// when it is none. A connection without a client certificate has none to doubt.
func (c *certificates) trust(connection *tls.ConnectionState) (ends <-chan struct{}, trusted bool) {
	if len(connection.VerifiedChains) == 0 {
		return nil, true
	}
	authorities := c.Current().authorities
	for _, chain := range connection.VerifiedChains {
		if ends, is := authorities[string(chain[len(chain)-1].Raw)]; is {
			return ends, true
		}
	}
	return nil, false
}

// distrusted waits until no authority stands for a connection's client any more and tells so; false
// is that done was closed before.
func (c *certificates) distrusted(connection *tls.ConnectionState, done <-chan struct{}) bool {
	for {
		ends, trusted := c.trust(connection)
		if !trusted {
			return true
		}
		select {
		case <-ends: // another one may stand for it, too
		case <-done:
			return false
		}
	}
}

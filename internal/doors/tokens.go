package doors

import (
	"crypto/sha256"
	"crypto/subtle"
	"crypto/x509"
	"fmt"
	"net/http"
	"strings"
)

// Tokens are the callers of a file, as it was when it was last valid.
type Tokens struct{ *Files[callers] }

// OpenTokens reads the file. What is wrong with it is an error that names each place. Who is
// not in a later file as in the one before is revoked.
func OpenTokens(path string) (*Tokens, error) {
	files, err := OpenFiles(func(texts [][]byte, old *callers) (*callers, func(), error) {
		next, err := parse(texts[0])
		if err != nil {
			return nil, nil, fmt.Errorf("the tokens file is not valid: %w", err)
		}
		return &next, next.follow(old), nil
	}, path)
	if err != nil {
		return nil, err
	}
	return &Tokens{files}, nil
}

// AnyByCertificate tells whether somebody is to be known by a client certificate.
func (t *Tokens) AnyByCertificate() bool { return len(t.Current().byCertificate) > 0 }

// follow keeps the callers that stay as they are, and gives what revokes the others.
func (c *callers) follow(old *callers) (revoke func()) {
	if old == nil {
		return nil
	}
	gone := append(keep(old.byHash, c.byHash), keep(old.byCertificate, c.byCertificate)...)
	return func() {
		for _, caller := range gone {
			close(caller.revoked)
		}
	}
}

// keep puts each old caller in the place of its like, so that its streams go on, and gives
// those that have none.
func keep[K comparable](old, next map[K]*Caller) (gone []*Caller) {
	for key, caller := range old {
		if like := next[key]; like != nil && like.same(caller) {
			next[key] = caller
			continue
		}
		gone = append(gone, caller)
	}
	return gone
}

// Caller finds who sent a request: whose token it carries, else whose certificate its
// connection has. It is nil for a stranger; a token that is not known is one, whatever the
// certificate.
func (t *Tokens) Caller(r *http.Request) *Caller {
	known := t.Current()
	if header := r.Header["Authorization"]; len(header) > 0 {
		token, ok := bearer(header)
		if !ok {
			return nil
		}
		return known.ofToken(token)
	}
	if r.TLS == nil || len(r.TLS.VerifiedChains) == 0 {
		return nil
	}
	return known.ofCertificate(r.TLS.VerifiedChains[0][0])
}

// bearer takes the token out of its header.
func bearer(header []string) (string, bool) {
	const scheme = "Bearer "
	if len(header) != 1 || len(header[0]) <= len(scheme) || !strings.EqualFold(header[0][:len(scheme)], scheme) {
		return "", false
	}
	return strings.TrimSpace(header[0][len(scheme):]), true
}

// ofToken looks a token up by its hash: how long that takes tells of a hash, never of the
// token, and of a hash nobody can choose a byte but by trying.
func (c *callers) ofToken(token string) *Caller {
	hash := sha256.Sum256([]byte(token))
	found := c.byHash[hash]
	if found == nil || subtle.ConstantTimeCompare(found.hash[:], hash[:]) != 1 {
		return nil
	}
	return found
}

// ofCertificate looks up the names of a certificate that was verified: DNS names, addresses
// of mail and URIs before the common name.
func (c *callers) ofCertificate(leaf *x509.Certificate) *Caller {
	names := append(append([]string{}, leaf.DNSNames...), leaf.EmailAddresses...)
	for _, uri := range leaf.URIs {
		names = append(names, uri.String())
	}
	for _, name := range append(names, leaf.Subject.CommonName) {
		if caller := c.byCertificate[name]; caller != nil && name != "" {
			return caller
		}
	}
	return nil
}

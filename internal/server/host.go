package server

import (
	"net"
	"net/http"
	"net/netip"
	"strings"
)

// hosts tells which Host headers the server answers to; nil is all of them.
//
// A server that asks for no token relies on being reached from its own machine only. A browser
// there reaches it for every page that it shows, and a page whose name its owner lets lead to
// 127.0.0.1 is, to the browser, of the server's own origin: it may send and read anything. What
// gives it away is the name, which the browser sends along. Whoever has no token and is no
// browser can say what they like, and need not: they are on the machine.
func (s *Server) hosts() func(host string) bool {
	if s.tokens != nil || s.config.Insecure || !loopback(s.config.Listen) {
		return nil
	}
	return localHost
}

// localHost tells whether a Host header names this machine to itself, at whatever port, which may
// be that of a tunnel. One that is empty is no browser's.
func localHost(host string) bool {
	if host == "" {
		return true
	}
	name := host
	if strings.HasSuffix(host, "]") { // an IPv6 address without a port
		name = strings.Trim(host, "[]")
	} else if strings.Contains(host, ":") {
		var err error
		if name, _, err = net.SplitHostPort(host); err != nil {
			return false
		}
	}
	if strings.EqualFold(strings.TrimSuffix(name, "."), "localhost") {
		return true
	}
	ip, err := netip.ParseAddr(name)
	return err == nil && ip.Unmap().IsLoopback()
}

// localOnly refuses what is not for a listener on loopback that asks nobody for a token.
func localOnly(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !localHost(r.Host) {
			http.Error(w, "call it 127.0.0.1, [::1] or localhost: it is for its own machine", http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

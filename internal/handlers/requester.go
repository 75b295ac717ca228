package handlers

import (
	"net"
	"strings"
	"unicode"
)

// requesterOf says who sent a request, for the record of restores: the name of its token,
// the address and what the program calls itself. The latter are the sender's words, so they
// are bounded and printable.
func requesterOf(e *exchange) string {
	r := e.request
	const mostOfAddress, mostOfAgent = 64, 160
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		host = r.RemoteAddr // not of a TCP connection
	}
	return strings.TrimSpace(e.callerName() + " " + strings.TrimSpace(printable(host, mostOfAddress)+" "+printable(r.UserAgent(), mostOfAgent)))
}

// printable keeps what can be shown of the first bytes of a text.
func printable(text string, most int) string {
	text = strings.ToValidUTF8(text[:min(len(text), most)], "")
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return -1
	}, text)
}

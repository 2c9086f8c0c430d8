package httpx

import (
	"fmt"
	"net/http"
	"net/netip"
	"regexp"
	"strconv"
	"strings"
)

// originShape matches the scheme, host and port of an origin. The host is a domain name or an IPv6
// address in brackets.
var originShape = regexp.MustCompile(`^(https?)://([a-z0-9-]{1,63}(?:\.[a-z0-9-]{1,63})*|\[[0-9a-f:]+\])(?::([1-9][0-9]{0,4}))?$`)

// numericHost matches hosts that browsers interpret as an IPv4 address, in any notation.
var numericHost = regexp.MustCompile(`(?:^|\.)(?:[0-9]+|0x[0-9a-f]*)$`)

// IsOrigin reports whether s is an origin in exactly the form that browsers send. Internationalized
// names have the form xn--…, IP addresses are in canonical form, and the scheme's default port is
// omitted. The scheme must be http or https.
func IsOrigin(s string) bool {
	parts := originShape.FindStringSubmatch(s)
	if parts == nil || len(s) > MaxOrigin {
		return false
	}

	scheme, host, port := parts[1], parts[2], parts[3]
	return isHost(host) && (port == "" || isPort(port) && port != map[string]string{"http": "80", "https": "443"}[scheme])
}

// isPort reports whether s is a port from 1 to 65535.
func isPort(s string) bool {
	n, err := strconv.ParseUint(s, 10, 16)
	return err == nil && n > 0
}

// isHost reports whether s is a host in the form that browsers send. IPv6 addresses are in
// brackets.
func isHost(s string) bool {
	inner, bracketed := strings.CutPrefix(s, "[")
	if !bracketed {
		addr, err := netip.ParseAddr(s)
		return !numericHost.MatchString(s) || err == nil && addr.Is4()
	}

	inner = strings.TrimSuffix(inner, "]")
	addr, err := netip.ParseAddr(inner)
	if err != nil {
		return false
	}

	// Every IP address has one canonical form, and browsers send only that form.
	written := addr.String()
	if b := addr.As16(); addr.Is4In6() { // Go writes the end of such an address with dots, but browsers write it in hexadecimal
		written = fmt.Sprintf("::ffff:%x:%x", int(b[12])<<8|int(b[13]), int(b[14])<<8|int(b[15]))
	}
	return written == inner
}

// MaxOrigin is the maximum length of an origin in characters.
const MaxOrigin = 255

// HeaderOrigin is the header in which a browser sends the origin of the page that makes a request.
const HeaderOrigin = "Origin"

// PageOrigin returns the origin of the page that sends a request. It returns false if the header is
// missing, repeated or not an origin (for example "null").
func PageOrigin(req *http.Request) (string, bool) {
	values := req.Header[HeaderOrigin]
	if len(values) != 1 || !IsOrigin(values[0]) {
		return "", false
	}
	return values[0], true
}

package outbound

import (
	"errors"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"

	"golang.org/x/net/idna"
)

// urlBytes and hostBytes are the maximum lengths of a URL and of a host name, in bytes.
const (
	urlBytes  = 8 << 10
	hostBytes = 253
)

// target is the destination of a request. Its host is canonical: an IP address in netip's
// notation, or a lower-case ASCII name without a trailing dot.
type target struct {
	scheme string
	host   string
	port   uint16
}

// hostPort returns the target in the notation of the allow list.
func (t target) hostPort() string { return net.JoinHostPort(t.host, strconv.Itoa(int(t.port))) }

// errHost is the error for a URL whose host is missing or invalid.
var errHost = refuse("The URL has no valid host.")

// targetFor returns the destination of a URL. It rejects URLs in which different parsers might
// see different hosts.
func targetFor(u *url.URL) (target, error) {
	switch {
	case u == nil || u.Scheme != "http" && u.Scheme != "https":
		return target{}, refuse("The URL must begin with http:// or https://.")
	case u.User != nil || strings.Contains(u.Host, "@"):
		return target{}, refuse("The URL must not contain a user name or password.")
	case u.Opaque != "" || strings.ContainsFunc(u.RawQuery, isControl):
		return target{}, refuse("The URL is not valid.")
	case len(u.Host)+len(u.Path)+len(u.RawPath)+len(u.RawQuery) > urlBytes:
		return target{}, refuse("The URL is too long.")
	}

	t := target{scheme: u.Scheme, port: defaultPort(u.Scheme)}

	// Inside brackets, a colon belongs to an IPv6 address and does not precede a port.
	name := u.Host
	if at := strings.LastIndexByte(u.Host, ':'); at >= 0 && !strings.HasSuffix(u.Host, "]") {
		port, err := portFor(u.Host[at+1:])
		if err != nil {
			return target{}, refuse("The URL has no valid port.")
		}
		name, t.port = u.Host[:at], port
	}

	var err error
	t.host, err = hostFor(name)
	return t, err
}

// isControl reports whether the character is a control character of ASCII.
func isControl(r rune) bool { return r < ' ' || r == 0x7f }

// defaultPort returns the port of a URL that specifies no port.
func defaultPort(scheme string) uint16 {
	if scheme == "https" {
		return 443
	}
	return 80
}

// portFor parses a port from 1 to 65535, which must consist of digits only.
func portFor(text string) (uint16, error) {
	if strings.Trim(text, "0123456789") != "" {
		return 0, errors.New("not digits")
	}
	port, err := strconv.ParseUint(text, 10, 16)
	if err != nil || port == 0 {
		return 0, errors.New("no port")
	}
	return uint16(port), nil
}

// hostFor returns the canonical form of a URL's host, without a port. It accepts only hosts that
// all parsers read in the same way.
func hostFor(name string) (string, error) {
	if inner, found := strings.CutPrefix(name, "["); found {
		return literalFor(inner)
	}

	ascii, err := idna.Lookup.ToASCII(name)
	if isASCII(name) { // the profile idna.Lookup rejects some names that exist, such as names with underscores
		ascii, err = strings.ToLower(name), nil
	}

	ascii = strings.TrimSuffix(ascii, ".")
	if err != nil || ascii == "" || len(ascii) > hostBytes || strings.Trim(ascii, "abcdefghijklmnopqrstuvwxyz0123456789-_.") != "" ||
		strings.HasPrefix(ascii, ".") || strings.Contains(ascii, "..") {
		return "", errHost
	}
	if !endsInNumber(ascii) {
		return ascii, nil
	}

	// Resolvers accept 127.1, 0x7f000001 and 0177.0.0.1 as addresses. Here, only the usual notation
	// is allowed.
	addr, err := netip.ParseAddr(ascii)
	if err != nil || !addr.Is4() {
		return "", refuse("The URL has a host that is neither a name nor a plain IP address.")
	}

	return addr.String(), nil
}

// literalFor parses the part of an IPv6 host that follows the opening bracket.
func literalFor(inner string) (string, error) {
	inner, closed := strings.CutSuffix(inner, "]")
	addr, err := netip.ParseAddr(inner)
	switch {
	case !closed || err != nil || !addr.Is6():
		return "", errHost
	case addr.Zone() != "" || addr.Is4In6():
		return "", refuse("The URL leads to a host that is not allowed.")
	}
	return addr.String(), nil
}

// isASCII reports whether the string has only ASCII characters.
func isASCII(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r >= 0x80 })
}

// endsInNumber reports whether URL parsers would treat the host as an IPv4 address because of its
// last label.
func endsInNumber(host string) bool {
	last := host[strings.LastIndexByte(host, '.')+1:]
	if strings.Trim(last, "0123456789") == "" {
		return true
	}
	hex, found := strings.CutPrefix(last, "0x")
	return found && strings.Trim(hex, "0123456789abcdef") == ""
}

// originFor parses Options.Origin.
func originFor(text string) (target, error) {
	u, err := url.Parse(text)
	if err != nil {
		return target{}, errHost
	}
	return targetFor(u)
}

// hostPortFor parses an entry in the allow list.
func hostPortFor(text string) (string, error) {
	at := strings.LastIndexByte(text, ':')
	if at < 0 {
		return "", errors.New("is neither host:port nor a network")
	}

	port, err := portFor(text[at+1:])
	if err != nil {
		return "", errors.New("has no valid port")
	}

	host, err := hostFor(text[:at])
	if err != nil {
		return "", errors.New("has no valid host")
	}

	return target{host: host, port: port}.hostPort(), nil
}

// leftOrigin reports whether a redirect chain has left its first origin.
func leftOrigin(next *http.Request, via []*http.Request) bool {
	first, err := targetFor(via[0].URL)
	if err != nil {
		return true
	}

	// A chain that has left its first origin and returned also counts, because another server has
	// chosen the URL.
	for _, req := range append(via[1:len(via):len(via)], next) {
		if to, err := targetFor(req.URL); err != nil || to != first {
			return true
		}
	}
	return false
}

package websearch

import (
	"fmt"
	"net"
	"net/url"
	"strings"
)

// maxURL is the maximum length of a page's address.
const maxURL = 2000 // bytes

// webURL parses and normalizes the untrusted address of a page: scheme and host are in lower case,
// and credentials are removed. It returns false for addresses whose scheme is not http or https,
// for addresses with invisible characters, and for addresses longer than maxURL.
func webURL(raw string) (*url.URL, bool) {
	u, err := url.Parse(strings.TrimSpace(raw))
	if err != nil || u.Hostname() == "" || u.Opaque != "" {
		return nil, false
	}
	u.Scheme, u.Host = strings.ToLower(u.Scheme), strings.ToLower(u.Host)
	if u.Scheme != "http" && u.Scheme != "https" {
		return nil, false
	}
	u.User = nil
	if s := u.String(); len(s) > maxURL || line(s) != s || line(u.Host) != u.Host { // longer than allowed, or with invisible characters
		return nil, false
	}
	return u, true
}

// samePage returns a key for an address. Addresses that lead to the same page have equal keys: the
// key ignores the scheme, "www.", default ports, a slash at the end and the fragment.
func samePage(u *url.URL) string {
	host := strings.TrimPrefix(u.Hostname(), "www.")
	if port := u.Port(); port != "" && port != "80" && port != "443" {
		host += ":" + port
	}
	return host + strings.TrimRight(u.EscapedPath(), "/") + "?" + u.RawQuery
}

// endpoint parses a provider's address from the settings, without its query. name is the name of
// the setting, which the error mentions.
func endpoint(name, raw string) (*url.URL, error) {
	u, ok := webURL(raw)
	if !ok {
		return nil, fmt.Errorf("setting %s: must be an http or https address", name)
	}
	u.RawQuery, u.Fragment = "", ""
	return u, nil
}

// origin returns two parts of an address: the scheme, host and explicit port, and only the host and
// port.
func origin(u *url.URL) (at, hostPort string) {
	port := u.Port()
	switch {
	case port != "":
	case u.Scheme == "https":
		port = "443"
	default:
		port = "80"
	}
	hostPort = net.JoinHostPort(u.Hostname(), port)
	return u.Scheme + "://" + hostPort, hostPort
}

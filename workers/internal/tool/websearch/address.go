package websearch

import (
	"fmt"
	"net"
	"net/url"
	"strings"
)

const maxURL = 2000 // bytes

// webURL parses the address of a page as it came from outside.
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
	if s := u.String(); len(s) > maxURL || line(s) != s || line(u.Host) != u.Host { // nothing in it that a reader would not see
		return nil, false
	}
	return u, true
}

// samePage gives pages that differ only in how they are named the same name.
func samePage(u *url.URL) string {
	host := strings.TrimPrefix(u.Hostname(), "www.")
	if port := u.Port(); port != "" && port != "80" && port != "443" {
		host += ":" + port
	}
	return host + strings.TrimRight(u.EscapedPath(), "/") + "?" + u.RawQuery
}

// endpoint parses a provider's address out of the settings.
func endpoint(name, raw string) (*url.URL, error) {
	u, ok := webURL(raw)
	if !ok {
		return nil, fmt.Errorf("setting %s: must be an http or https address", name)
	}
	u.RawQuery, u.Fragment = "", ""
	return u, nil
}

// origin names where an address's requests go: the scheme, the host and always the port.
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

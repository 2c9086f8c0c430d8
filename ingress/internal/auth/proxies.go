package auth

import (
	"net"
	"net/http"
	"net/netip"
	"strings"
)

// Proxies are the IP addresses of proxies whose X-Forwarded-For and X-Forwarded-Proto headers are
// trusted. An empty list trusts no proxy.
type Proxies []netip.Prefix

// Trust reports whether the address belongs to a trusted proxy.
func (p Proxies) Trust(addr netip.Addr) bool {
	for _, prefix := range p {
		if prefix.Contains(addr) {
			return true
		}
	}
	return false
}

// peer returns the IP address at the other end of the connection. For a unix socket it returns the
// zero Addr, which no list of proxies contains.
func peer(req *http.Request) netip.Addr {
	at, err := netip.ParseAddrPort(req.RemoteAddr)
	if err != nil {
		return netip.Addr{} // a unix socket
	}
	return at.Addr().Unmap().WithZone("")
}

// OnThisMachine reports whether the client is a program on this machine: the connection comes from
// loopback, neither the headers nor the settings show that it comes through a proxy, and the Host
// header is not a name that another site may own. The endpoint /metrics accepts such clients without
// authorization.
func (p Proxies) OnThisMachine(req *http.Request) bool {
	addr := peer(req)
	if !addr.IsLoopback() || p.Trust(addr) || !isLocalHost(req.Host) {
		return false
	}

	// A proxy on this machine also connects from loopback, but adds at least one of the following
	// headers.
	for name := range req.Header {
		if name == "Forwarded" || name == "Via" || name == "X-Real-Ip" || strings.HasPrefix(name, "X-Forwarded-") {
			return false
		}
	}
	return true
}

// isLocalHost reports whether the Host header has an IP address, localhost, or a name without a dot.
// The owner of any other name could let it resolve to 127.0.0.1, and a page of that name could then
// read the responses (DNS rebinding).
func isLocalHost(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	if _, err := netip.ParseAddr(strings.Trim(host, "[]")); err == nil {
		return true
	}
	return !strings.Contains(host, ".") || strings.HasSuffix(strings.ToLower(host), ".localhost")
}

// ClientAddr returns the client's IP address: the rightmost address in X-Forwarded-For that does
// not belong to a trusted proxy. The client may have invented the addresses to the left of it.
// Without a trusted proxy, it is the address of the connection. For a unix socket it is the zero
// Addr.
func (p Proxies) ClientAddr(req *http.Request) netip.Addr {
	addr := peer(req)
	if !p.Trust(addr) {
		return addr
	}

	// Each proxy appends the address from which it received the request. Therefore read the list
	// from the right, until an address does not belong to a trusted proxy.
	hops := strings.Split(strings.Join(req.Header["X-Forwarded-For"], ","), ",")
	for i := len(hops) - 1; i >= 0 && p.Trust(addr); i-- {
		hop, ok := parseHop(strings.TrimSpace(hops[i]))
		if !ok {
			return addr
		}
		addr = hop
	}
	return addr
}

// parseHop parses an address as proxies write it, with or without a port.
func parseHop(s string) (netip.Addr, bool) {
	// Some proxies write an IPv6 address in brackets, or add a port.
	addr, err := netip.ParseAddr(strings.Trim(s, "[]"))
	if err != nil {
		at, err := netip.ParseAddrPort(s)
		if err != nil {
			return netip.Addr{}, false
		}
		addr = at.Addr()
	}
	return addr.Unmap().WithZone(""), true
}

// Secure reports whether the client used TLS to reach the service or the proxy in front of it. The
// result decides whether cookies get the attribute Secure.
func (p Proxies) Secure(req *http.Request) bool {
	if req.TLS != nil {
		return true
	}

	// The header is used only if it comes from a trusted proxy, because clients can set it.
	proto := req.Header["X-Forwarded-Proto"]
	return len(proto) == 1 && strings.EqualFold(proto[0], "https") && p.Trust(peer(req))
}

// ClientName returns the name under which the requests from an address are counted: the address, or
// its /64 network for IPv6, which usually belongs to a single customer. The name is also the key of
// rate limits.
func ClientName(addr netip.Addr) string {
	if !addr.IsValid() {
		return "local"
	}
	if addr.Is4() {
		return addr.String()
	}
	network, err := addr.Prefix(64)
	if err != nil {
		return addr.String()
	}
	return network.String()
}

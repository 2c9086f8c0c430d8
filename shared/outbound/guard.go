package outbound

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"code.dny.dev/ssrf"
)

// metadata contains public addresses at which cloud providers serve a machine's secrets.
var metadata = []netip.Prefix{netip.MustParsePrefix("168.63.129.16/32")}

// errForbidden is the error for forbidden hosts that are written as IP addresses.
var errForbidden = refuse("The URL leads to a host that is not allowed.")

// errPort is the error for a port that is not allowed on the requested host.
var errPort = refuse("The URL has a port that is not allowed. Use port 80 or 443, or allow the host and port in OUTBOUND_ALLOW.")

// guard decides, when a connection is made, whether its address is allowed. It is never changed, so
// it is safe for concurrent use.
type guard struct {
	public *ssrf.Guardian  // only the public internet
	open   *ssrf.Guardian  // also the networks of the allow list
	exact  map[string]bool // host:port entries of the allow list
	own    []uint16        // ports of this service
	ports  []uint16        // allowed on every reachable address
	locals func() ([]net.Addr, error)
	seen   func(host string, to netip.AddrPort) error // for tests that count the allowed connections
}

// newGuard parses the entries of the allow list. The argument own contains the ports of this
// service and its servers.
func newGuard(allow []string, own []int) (*guard, error) {
	g := &guard{exact: map[string]bool{}, ports: []uint16{80, 443}, locals: net.InterfaceAddrs}
	var v4, v6 []netip.Prefix
	for _, entry := range allow {
		network, err := netip.ParsePrefix(entry)
		switch {
		case err != nil && strings.Contains(entry, "/"), network.Addr().Is4In6():
			return nil, fmt.Errorf("reading allow list: %q is not a network", entry)
		case err == nil && network.Addr().Is4():
			v4 = append(v4, network)
		case err == nil:
			v6 = append(v6, network)
		default:
			hostPort, err := hostPortFor(entry)
			if err != nil {
				return nil, fmt.Errorf("reading allow list: %q %w", entry, err)
			}
			g.exact[hostPort] = true
		}
	}

	for _, port := range own {
		if port < 1 || port > 65535 {
			return nil, fmt.Errorf("reading own ports: %d is not a port", port)
		}
		g.own = append(g.own, uint16(port))
	}

	// The package ssrf allows any port here. The guard checks ports separately, because the allowed
	// ports depend on the use of the client.
	g.public = ssrf.New(ssrf.WithAnyPort(), ssrf.WithDeniedV4Prefixes(metadata...))
	g.open = ssrf.New(ssrf.WithAnyPort(), ssrf.WithDeniedV4Prefixes(metadata...),
		ssrf.WithAllowedV4Prefixes(v4...), ssrf.WithAllowedV6Prefixes(v6...))
	return g, nil
}

// permit contains the destinations that an HTTP client may reach in addition to those that the
// guard allows to all clients.
type permit struct {
	port    uint16 // port of the origin; 0: no origin
	trusted string // host:port; "": no trusted host
}

// checkPort checks a port before the host's name is resolved. A port that occurs in the allow list
// passes this check. Later, the method check examines the port together with the address.
func (g *guard) checkPort(p permit, to target) error {
	if to.port == p.port || slices.Contains(g.ports, to.port) || to.hostPort() == p.trusted {
		return nil
	}
	for listed := range g.exact {
		if strings.HasSuffix(listed, ":"+strconv.Itoa(int(to.port))) {
			return nil
		}
	}
	return errPort
}

// check decides whether a socket may be connected. The argument host is the host in the request.
// All rejections of a host name have the same message, so that they reveal nothing about its
// addresses.
func (g *guard) check(p permit, host, network, address string) error {
	// A host that is written as an IP address needs no name lookup, so a detailed error reveals
	// nothing about the network.
	err := g.judge(p, host, network, address)
	if _, literal := netip.ParseAddr(host); err != nil && literal != nil {
		return refuse(unreachable)
	}
	return err
}

// judge makes the decision of check, with detailed errors. The order of its checks matters: an
// exact entry of the allow list permits even an address of this service.
func (g *guard) judge(p permit, host, network, address string) error {
	to, err := netip.ParseAddrPort(address)
	if err != nil || network != "tcp4" && network != "tcp6" {
		return errForbidden
	}

	// Entries with a host and port are exact, so they take precedence over all other rules.
	named := target{host: host, port: to.Port()}.hostPort()
	switch {
	case named == p.trusted || g.exact[named] || g.exact[to.String()]:
	case g.isOwn(to), g.open.Safe(network, address, nil) != nil:
		return errForbidden

	case to.Port() != p.port && !slices.Contains(g.ports, to.Port()):
		return errPort
	}

	if g.seen != nil {
		return g.seen(host, to)
	}

	return nil
}

// isOwn reports whether an address may belong to this service or one of its servers; such addresses
// are forbidden even in an allowed network. The servers are often on other machines in a private
// network and use the same ports there.
func (g *guard) isOwn(to netip.AddrPort) bool {
	if !slices.Contains(g.own, to.Port()) {
		return false
	}

	// A non-public address with a port of this service may belong to one of its servers.
	if g.public.SafeAddr(to.Addr()) != nil {
		return true
	}

	// A public address may also be an address of this machine, and thus of this service.
	local, err := g.locals()
	if err != nil {
		return true // when in doubt, refuse
	}

	return slices.ContainsFunc(local, func(a net.Addr) bool {
		prefix, err := netip.ParsePrefix(a.String())
		return err == nil && prefix.Addr() == to.Addr()
	})
}

package outbound

import (
	"net"
	"net/netip"
	"net/url"
	"strconv"
)

// Check validates a URL as written, so that the user who sets it gets an immediate error. Any port
// is allowed, because a client with Options.Origin may use the port of its origin. The addresses to
// which the host's name resolves are checked only when a connection is made. Errors are of type
// *Error.
//
// A URL without https:// is valid only if the operator has allowed its host.
func (c *Client) Check(address string) error {
	u, err := url.Parse(address)
	if err != nil {
		return refuse("The URL is not valid.")
	}

	to, err := targetFor(u)
	if err != nil {
		return err
	}

	// The operator has allowed the host if the allow list contains it by name or by network.
	literal, err := netip.ParseAddr(to.host)
	isLiteral := err == nil
	opened := c.guard.exact[to.hostPort()] || isLiteral && c.guard.public.SafeAddr(literal) != nil && c.guard.open.SafeAddr(literal) == nil
	if to.scheme != "https" && !opened {
		return refuse("The URL must begin with https://.")
	}
	if !isLiteral {
		return nil
	}

	// A literal address needs no resolution, so the guard can decide now.
	network := "tcp6"
	if literal.Is4() {
		network = "tcp4"
	}

	return c.guard.check(permit{port: to.port}, to.host, network, net.JoinHostPort(to.host, strconv.Itoa(int(to.port))))
}

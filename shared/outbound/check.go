package outbound

import (
	"net"
	"net/netip"
	"net/url"
	"strconv"
)

// Check judges an address as it is written, so that whoever sets one learns at once what is wrong with it. Its port is allowed, as that
// of Options.Origin. What its name leads to is judged when it is dialled. Its errors are of type *Error.
//
// An address that is not https:// must be one that the operator has opened.
func (c *Client) Check(address string) error {
	u, err := url.Parse(address)
	if err != nil {
		return refuse("The address is not valid.")
	}
	to, err := targetFor(u)
	if err != nil {
		return err
	}
	literal, err := netip.ParseAddr(to.host)
	isLiteral := err == nil
	opened := c.guard.exact[to.hostPort()] || isLiteral && c.guard.public.SafeAddr(literal) != nil && c.guard.open.SafeAddr(literal) == nil
	if to.scheme != "https" && !opened {
		return refuse("The address must begin with https://.")
	}
	if !isLiteral {
		return nil
	}
	network := "tcp6"
	if literal.Is4() {
		network = "tcp4"
	}
	return c.guard.check(permit{port: to.port}, to.host, network, net.JoinHostPort(to.host, strconv.Itoa(int(to.port))))
}

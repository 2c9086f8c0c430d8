package config

import (
	"fmt"
	"net/netip"
	"net/url"
	"strconv"
)

// Outbound contains the non-public addresses to which the service may connect. The settings must be
// the same in the ingress and the workers. Package outbound applies them.
type Outbound struct {
	OutboundAllow []string `name:"outbound-allow" env:"OUTBOUND_ALLOW" help:"Addresses that agents and notifications may reach in addition to the public internet: host:port, or networks (CIDR), separated by commas."`
}

// Check returns an error for the first invalid entry.
func (o Outbound) Check() error {
	for _, entry := range o.OutboundAllow {
		if err := checkAllowed(entry); err != nil {
			return err
		}
	}
	return nil
}

// checkAllowed returns an error if an entry is neither a network nor a host with a port.
func checkAllowed(entry string) error {
	if _, err := netip.ParsePrefix(entry); err == nil {
		return nil
	}

	// A host must have a port, so that one entry does not permit all services of a machine.
	u, err := url.Parse("//" + entry)
	if err != nil || u.Host != entry || u.Hostname() == "" {
		return fmt.Errorf("OUTBOUND_ALLOW must be a list of host:port and networks (CIDR), not %q", entry)
	}
	if port, err := strconv.Atoi(u.Port()); err != nil || port < 1 || port > 65535 {
		return fmt.Errorf("OUTBOUND_ALLOW contains a host without a port: %q", entry)
	}
	return nil
}

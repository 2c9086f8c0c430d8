package outbound

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"

	"golang.org/x/net/dns/dnsmessage"
)

// zone is the data of a test's name server. Each name has a list of responses to successive
// queries, and the last response is repeated. Queries for A and AAAA records are counted
// separately.
type zone struct {
	answers map[string][][]string
	any     []string // responses for names that are not listed

	mu    sync.Mutex
	asked map[dnsmessage.Question]int
}

// lookup returns the addresses in the response to a query.
func (z *zone) lookup(q dnsmessage.Question) ([]netip.Addr, bool) {
	turns, known := z.answers[strings.ToLower(strings.TrimSuffix(q.Name.String(), "."))]
	if !known {
		if z.any == nil {
			return nil, false
		}
		turns = [][]string{z.any}
	}
	z.mu.Lock()
	defer z.mu.Unlock()
	if z.asked == nil {
		z.asked = map[dnsmessage.Question]int{}
	}
	turn := min(z.asked[q], len(turns)-1)
	z.asked[q]++
	var found []netip.Addr
	for _, text := range turns[turn] {
		if addr := netip.MustParseAddr(text); addr.Is4() == (q.Type == dnsmessage.TypeA) {
			found = append(found, addr)
		}
	}
	return found, true
}

// answer returns the response to a query.
func (z *zone) answer(query []byte) ([]byte, error) {
	var p dnsmessage.Parser
	header, err := p.Start(query)
	if err != nil {
		return nil, err
	}
	q, err := p.Question()
	if err != nil {
		return nil, err
	}
	m := dnsmessage.Message{
		Header:    dnsmessage.Header{ID: header.ID, Response: true, Authoritative: true, RecursionAvailable: true},
		Questions: []dnsmessage.Question{q},
	}
	addrs, known := z.lookup(q)
	switch {
	case strings.HasPrefix(q.Name.String(), "broken."):
		m.RCode = dnsmessage.RCodeServerFailure
	case !known:
		m.RCode = dnsmessage.RCodeNameError
	}
	for _, addr := range addrs {
		r := dnsmessage.Resource{Header: dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: q.Class}}
		if addr.Is4() {
			r.Body = &dnsmessage.AResource{A: addr.As4()}
		} else {
			r.Body = &dnsmessage.AAAAResource{AAAA: addr.As16()}
		}
		m.Answers = append(m.Answers, r)
	}
	return m.Pack()
}

// serve starts a name server on loopback and returns a resolver that uses it.
func (z *zone) serve(t *testing.T) *net.Resolver {
	t.Helper()
	server, err := new(net.ListenConfig).ListenPacket(t.Context(), "udp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	go func() {
		buffer := make([]byte, 1500)
		for {
			n, from, err := server.ReadFrom(buffer)
			if err != nil {
				return
			}
			if reply, err := z.answer(buffer[:n]); err == nil {
				_, _ = server.WriteTo(reply, from)
			}
		}
	}()
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "udp4", server.LocalAddr().String())
	}}
}

// inMemory returns a resolver without sockets.
func (z *zone) inMemory() *net.Resolver {
	return &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		ours, theirs := net.Pipe()
		go func() {
			defer func() { _ = theirs.Close() }()
			var length [2]byte
			if _, err := io.ReadFull(theirs, length[:]); err != nil {
				return
			}
			query := make([]byte, binary.BigEndian.Uint16(length[:]))
			if _, err := io.ReadFull(theirs, query); err != nil {
				return
			}
			if reply, err := z.answer(query); err == nil {
				_, _ = theirs.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(reply))), reply...))
			}
		}()
		return ours, nil
	}}
}

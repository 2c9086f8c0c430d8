package waiting

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
)

func TestAudienceMeasuresWhatIsHeard(t *testing.T) {
	t.Parallel()
	const size = 5
	heard := make([]int, size)
	var a *audience
	a = newAudience(size, func(listener, nth int, text string) error {
		if heard[listener]++; nth != heard[listener] {
			t.Errorf("listener %d is told token %d after %d", listener, nth, heard[listener]-1)
		}
		return a.hear(text)
	})
	got, err := a.measure(t.Context())
	if err != nil || got.PerSecond <= 0 || got.P99 < got.P50 || got.P99 <= 0 {
		t.Errorf("measured %+v: %v", got, err)
	}
	for listener, n := range heard {
		if n < 2 {
			t.Errorf("listener %d was told %d tokens", listener, n)
		}
	}
}

func TestAudienceMissesNothingInSilence(t *testing.T) {
	t.Parallel()
	deaf := newAudience(2, func(int, int, string) error { return nil })
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := deaf.everybody(ctx); err == nil || !strings.Contains(err.Error(), "0 of 2 tokens") {
		t.Errorf("nobody has heard anything: %v", err)
	}
	broken := errors.New("broken")
	if _, err := newAudience(2, func(int, int, string) error { return broken }).measure(t.Context()); !errors.Is(err, broken) {
		t.Errorf("nobody was told anything: %v", err)
	}
	if deaf.hear("no time") == nil {
		t.Error("a token that nobody sent was heard")
	}
}

func TestSubscriberHearsTokens(t *testing.T) {
	t.Parallel()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	serve := func() error {
		conn, err := listener.Accept()
		if err != nil {
			return err
		}
		first, second := token(1, "one"), token(2, "two")
		_, err = fmt.Fprintf(conn, "INFO {}\r\nPONG\r\nMSG a 1 %d\r\n%s\r\nPING\r\nMSG a 1 %d\r\n%s\r\n", len(first), first, len(second), second)
		_, left := io.Copy(io.Discard, conn) // until the subscriber leaves
		return errors.Join(err, left, conn.Close())
	}
	served := make(chan error, 1)
	go func() { served <- serve() }()
	s, err := subscribe(t.Context(), listener.Addr().String(), "a")
	if err != nil {
		t.Fatal(err)
	}
	var heard []string
	s.listen(func(text string) error {
		heard = append(heard, text)
		if len(heard) == 2 {
			return io.EOF
		}
		return nil
	})
	if err := errors.Join(s.conn.Close(), <-served); err != nil {
		t.Fatal(err)
	}
	if strings.Join(heard, " ") != "one two" {
		t.Errorf("heard %q", heard)
	}
}

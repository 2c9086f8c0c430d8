package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
)

func TestAudienceMeasuresDelays(t *testing.T) {
	t.Parallel()
	received := make([]int, 5)
	var a *audience
	a = newAudience(len(received), func(listener, nth int, text string) error {
		if received[listener]++; nth != received[listener] {
			t.Errorf("listener %d receives piece %d after %d", listener, nth, received[listener]-1)
		}
		return a.receive(text)
	})

	got, err := a.measure(t.Context())
	if err != nil || got["pieces/s"] <= 0 || got["p99 ms"] < got["p50 ms"] || got["p99 ms"] <= 0 {
		t.Errorf("measured %+v: %v", got, err)
	}
}

func TestAudienceReportsLostPieces(t *testing.T) {
	t.Parallel()
	lost := newAudience(2, func(int, int, string) error { return nil })
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := lost.all(ctx); err == nil || !strings.Contains(err.Error(), "0 of 2 pieces") {
		t.Errorf("error is %v", err)
	}

	broken := errors.New("broken")
	if _, err := newAudience(2, func(int, int, string) error { return broken }).measure(t.Context()); !errors.Is(err, broken) {
		t.Errorf("error is %v", err)
	}
	if lost.receive("no time") == nil {
		t.Error("a piece that was never sent was received")
	}
}

func TestSubscriberReceivesPieces(t *testing.T) {
	t.Parallel()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()

	served := make(chan error, 1)
	go func() {
		conn, err := listener.Accept()
		if err != nil {
			served <- err
			return
		}
		first, second := piece(1, "one"), piece(2, "two")
		_, err = fmt.Fprintf(conn, "INFO {}\r\nPONG\r\nMSG a 1 %d\r\n%s\r\nPING\r\nMSG a 1 %d\r\n%s\r\n", len(first), first, len(second), second)
		_, left := io.Copy(io.Discard, conn) // until the subscriber disconnects
		served <- errors.Join(err, left, conn.Close())
	}()

	conn, in, err := subscribe(t.Context(), listener.Addr().String(), "a")
	if err != nil {
		t.Fatal(err)
	}

	var received []string
	listen(conn, in, func(text string) error {
		received = append(received, text)
		if len(received) == 2 {
			return io.EOF
		}
		return nil
	})
	if err := errors.Join(conn.Close(), <-served); err != nil {
		t.Fatal(err)
	}
	if strings.Join(received, " ") != "one two" {
		t.Errorf("received %q", received)
	}
}

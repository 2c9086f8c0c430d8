package e2e

import (
	"bufio"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// rawSocket is a WebSocket connection that uses no library. Tests use it as a client that reads
// nothing, answers no ping, or never finishes its request.
type rawSocket struct {
	t    *testing.T
	conn *net.TCPConn
	in   *bufio.Reader
}

// rawDial opens a connection to an ingress with the smallest possible receive buffer.
func rawDial(t *testing.T, in *edge) *rawSocket {
	t.Helper()
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", strings.TrimPrefix(in.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}

	t.Cleanup(func() { _ = conn.Close() })
	tcp, ok := conn.(*net.TCPConn)
	if !ok {
		t.Fatalf("%T", conn)
	}
	if err := tcp.SetReadBuffer(4 << 10); err != nil {
		t.Fatal(err)
	}
	return &rawSocket{t: t, conn: tcp, in: bufio.NewReaderSize(conn, 4<<10)}
}

// write sends raw bytes.
func (s *rawSocket) write(b []byte) {
	s.t.Helper()
	if _, err := s.conn.Write(b); err != nil {
		s.t.Fatal(err)
	}
}

// request returns the head of the HTTP request that opens a voice session.
func (a account) request(in *edge) string {
	key := base64.StdEncoding.EncodeToString([]byte("sixteen bytes ok"))
	return fmt.Sprintf("GET /v1/realtime?model=%s HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nAuthorization: Bearer %s\r\n"+
		"Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: %s\r\n\r\n", a.agent, in.port, a.key, key)
}

// rawUpgrade opens a voice session.
func (a account) rawUpgrade(t *testing.T, in *edge) *rawSocket {
	t.Helper()
	s := rawDial(t, in)
	s.write([]byte(a.request(in)))
	res, err := http.ReadResponse(s.in, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("status = %d, want an upgrade", res.StatusCode)
	}
	return s
}

const frameText = 1 // the frame type of text

// framed builds a WebSocket frame of a client. The frame's mask is all zeros, so the payload is
// unchanged.
func framed(kind byte, payload []byte) []byte {
	head := []byte{0x80 | kind, 0x80}
	switch {
	case len(payload) < 126:
		head[1] |= byte(len(payload))
	case len(payload) < 1<<16:
		head[1] |= 126
		head = binary.BigEndian.AppendUint16(head, uint16(len(payload)))
	default:
		head[1] |= 127
		head = binary.BigEndian.AppendUint64(head, uint64(len(payload)))
	}
	return append(append(head, 0, 0, 0, 0), payload...)
}

// send sends an event.
func (s *rawSocket) send(event any) {
	s.t.Helper()
	raw, err := json.Marshal(event)
	if err != nil {
		s.t.Fatal(err)
	}
	s.write(framed(frameText, raw))
}

// drain reads until the connection ends, and returns the error that ended it. It answers no pings.
func (s *rawSocket) drain(within time.Duration) error {
	s.t.Helper()
	if err := s.conn.SetReadDeadline(time.Now().Add(within)); err != nil {
		s.t.Fatal(err)
	}
	_, err := io.Copy(io.Discard, s.in)
	if err == nil {
		return io.EOF
	}
	return err
}

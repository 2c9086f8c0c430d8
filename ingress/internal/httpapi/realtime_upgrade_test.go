package httpapi

import (
	"bufio"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"parley/ingress/internal/httpapi/voice"
	"parley/ingress/internal/openapi/openapitest"
	"parley/shared/testkit"
)

// upgradeHead returns a WebSocket request without the empty line at its end.
func (b *voiceEnv) upgradeHead(proto string, headers ...string) string {
	return "GET " + voice.RealtimePath + "?model=" + b.agent + " " + proto + "\r\nHost: parley.test\r\n" + strings.Join(headers, "\r\n")
}

// raw sends the text of a request and returns the response, which must arrive immediately. The
// result last is true if the service closes the connection.
func (b *voiceEnv) raw(t *testing.T, name, request string) (got answer, last bool) {
	t.Helper()
	conn := b.wire(t)
	began := time.Now()
	_, err := io.WriteString(conn, request)
	must(t, err)
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	body, err := io.ReadAll(res.Body)
	must(t, err)
	must(t, res.Body.Close())
	if took := time.Since(began); took > testkit.Within(3*time.Second) {
		t.Errorf("%s: answered after %s", name, took)
	}
	asked, err := http.ReadRequest(bufio.NewReader(strings.NewReader(b.upgradeHead("HTTP/1.1", b.key) + "\r\n\r\n")))
	must(t, err)
	openapitest.Check(t, openapitest.Exchange{
		Method: "GET", URL: asked.URL, RequestHeader: asked.Header, Status: res.StatusCode, Header: res.Header, Body: body,
	})
	return answer{status: res.StatusCode, header: res.Header, body: body}, res.Close
}

// A WebSocket request has no body. If a client announces a body, the service neither waits for it
// nor interprets it as frames.
func TestUpgradesHaveNoBody(t *testing.T) {
	t.Parallel()
	b := newVoiceEnv(t, manyRequests)
	b.api.voice.VoicePerOrganization = 1
	b.open(t, "?model="+b.agent, b.key) // takes the only slot, so that a valid request would get another error
	frame := "\x81\x82\x00\x00\x00\x00{}"
	for name, c := range map[string]struct{ header, body string }{
		"announced and never sent": {"Content-Length: 5", ""},
		"a length beyond all":      {"Content-Length: 9000000000000", "x"},
		"sent":                     {"Content-Length: 8", frame},
		"chunks that never come":   {"Transfer-Encoding: chunked", ""},
		"half a chunk":             {"Transfer-Encoding: chunked", "ff\r\n" + frame},
		"no chunks":                {"Transfer-Encoding: chunked", "0\r\n\r\n"},
		"chunks and a length":      {"Content-Length: 0\r\nTransfer-Encoding: chunked", ""},
		"announced with a wait":    {"Content-Length: 5\r\nExpect: 100-continue", ""},
	} {
		head := b.upgradeHead("HTTP/1.1", append([]string{b.key, c.header}, upgrades...)...)
		got, last := b.raw(t, name, head+"\r\n\r\n"+c.body)
		got.want(t, name, 400, "invalid_request body")
		if !last || got.text(t, "error.type") != "invalid_request_error" {
			t.Errorf("%s: %v %s", name, got.header, got.body)
		}
	}
}

// An invalid handshake (RFC 6455) is rejected in the error format of /v1.
func TestInvalidHandshakes(t *testing.T) {
	t.Parallel()
	b := newVoiceEnv(t, manyRequests)
	const (
		key     = "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=="
		version = "Sec-WebSocket-Version: 13"
	)
	ask := upgrades[:2]
	for name, c := range map[string]struct {
		proto    string
		headers  []string
		status   int
		problems string
	}{
		"HTTP/1.0":               {"HTTP/1.0", []string{version, key}, 426, "upgrade_required"},
		"no version":             {"HTTP/1.1", []string{key}, 426, "upgrade_required"},
		"an empty version":       {"HTTP/1.1", []string{"Sec-WebSocket-Version:", key}, 426, "upgrade_required"},
		"an older version":       {"HTTP/1.1", []string{"Sec-WebSocket-Version: 8", key}, 426, "upgrade_required"},
		"versions in a list":     {"HTTP/1.1", []string{"Sec-WebSocket-Version: 13, 8", key}, 426, "upgrade_required"},
		"two versions":           {"HTTP/1.1", []string{version, version, key}, 400, "invalid_request Sec-WebSocket-Version"},
		"no key":                 {"HTTP/1.1", []string{version}, 400, "invalid_request Sec-WebSocket-Key"},
		"an empty key":           {"HTTP/1.1", []string{version, "Sec-WebSocket-Key:"}, 400, "invalid_request Sec-WebSocket-Key"},
		"two keys":               {"HTTP/1.1", []string{version, key, key}, 400, "invalid_request Sec-WebSocket-Key"},
		"a key of 15 bytes":      {"HTTP/1.1", []string{version, "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAA"}, 400, "invalid_request Sec-WebSocket-Key"},
		"a key of 17 bytes":      {"HTTP/1.1", []string{version, "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAAA="}, 400, "invalid_request Sec-WebSocket-Key"},
		"a key that is no text":  {"HTTP/1.1", []string{version, "Sec-WebSocket-Key: \xff\xfe"}, 400, "invalid_request Sec-WebSocket-Key"},
		"a key that is no code":  {"HTTP/1.1", []string{version, "Sec-WebSocket-Key: not base64 not base64!!!"}, 400, "invalid_request Sec-WebSocket-Key"},
		"a key without its ends": {"HTTP/1.1", []string{version, "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ"}, 400, "invalid_request Sec-WebSocket-Key"},
		"both twice":             {"HTTP/1.1", []string{version, version, key, key}, 400, "invalid_request Sec-WebSocket-Version"},
	} {
		got, _ := b.raw(t, name, b.upgradeHead(c.proto, append(append([]string{b.key}, ask...), c.headers...)...)+"\r\n\r\n")
		got.want(t, name, c.status, c.problems)
		if kind := got.text(t, "error.type"); kind != "invalid_request_error" || !strings.HasPrefix(got.header.Get("Content-Type"), "application/json") {
			t.Errorf("%s: %s %v", name, got.body, got.header)
		}
		if c.status == 426 && (got.header.Get("Sec-WebSocket-Version") != "13" || got.header.Get("Upgrade") != "websocket") {
			t.Errorf("%s: %v", name, got.header)
		}
	}
}

package httprequest_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"parley/shared/domain"
	"parley/workers/internal/tool"
)

func TestKeysInAddressesAreNeverShown(t *testing.T) {
	t.Parallel()
	const key = "key-in-address"
	l := newLedger(t)
	l.answer = func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/plain")
		w.Header().Set("Location", r.RequestURI)
		w.WriteHeader(http.StatusTemporaryRedirect)
		_, _ = io.WriteString(w, "You asked for "+r.RequestURI)
	}
	out, err := l.call(t, request(domain.Endpoint{Method: "POST", URL: l.URL + "/u?view=detailed&api_key=" + key}, `{}`))
	if got := fmt.Sprint(out); err != nil || strings.Contains(got, key) || strings.Count(got, "/u?view=detailed&api_key=***") != 2 {
		t.Errorf("%s, %v", got, err)
	}
}

func TestCausesHoldNoSecrets(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	l.answer = func(w http.ResponseWriter, r *http.Request) {
		c, _, err := http.NewResponseController(w).Hijack()
		if err == nil {
			_, _ = fmt.Fprintf(c, "HTTP/1.1 %s\r\n\r\n", r.Header.Get("X-Key"))
			_ = c.Close()
		}
	}
	_, err := l.call(t, request(domain.Endpoint{Method: "GET", URL: l.URL, Headers: map[string]string{"X-Key": "sealed:" + apiKey}}, `{}`))
	var public *tool.Error
	if !errors.As(err, &public) || public.Err == nil {
		t.Fatal(err)
	}
	for cause := public.Err; cause != nil; cause = errors.Unwrap(cause) {
		if strings.Contains(cause.Error(), "4711") {
			t.Errorf("the cause is %v", cause)
		}
	}
}

func TestAHookThatPanicsSendsNothing(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	req := request(domain.Endpoint{Method: "POST", URL: l.URL}, `{}`)
	req.Sending = func(context.Context) error { panic("the ledger is away") }
	_, err := l.call(t, req)
	var public *tool.Error
	if !errors.As(err, &public) || !public.NotSent || public.Message != "The request was not sent." || l.count() != 0 {
		t.Errorf("%v after %d requests", err, l.count())
	}
}

func TestBodiesOfManyParts(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	l.answer = func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, "["+strings.Repeat("1,", 1<<19-2)+"1]")
	}
	e := domain.Endpoint{Method: "GET", URL: l.URL, Headers: map[string]string{}}
	for n := range 20 {
		e.Headers[fmt.Sprint("X-", n)] = fmt.Sprint("sealed:secret-", n, "/", n)
	}
	out, err := l.call(t, request(e, `{}`))
	if text, _ := out["body"].(string); err != nil || out["truncated"] != true || !strings.HasPrefix(text, "[1,1,1") {
		t.Errorf("%.100s, %v", text, err)
	}
}

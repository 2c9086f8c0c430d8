package parley

import (
	"errors"
	"net/http"
	"testing"
)

// TestOnlyTextIsSent checks that the client rejects a body with bytes that are not valid UTF-8,
// because JSON cannot represent them.
func TestOnlyTextIsSent(t *testing.T) {
	t.Parallel()
	client, _ := served(t, Options{Retries: 2}, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })
	for want, body := range map[string]map[string]any{
		"":              {"message": "gr\u00fcn, \ufffd", "n": 1},
		"message":       {"message": "gr\xfcn", "stream": true},
		"input.message": {"input": map[string]any{"a": "\u00fc", "message": "\xff"}, "target": "x"},
	} {
		_, err := client.Call(t.Context(), Request{Method: http.MethodPost, Body: body, Keyed: true})
		wrong, is := errors.AsType[*TextError](err)
		if is != (want != "") || is && wrong.Field != want || !is && err != nil {
			t.Errorf("%q: %v", want, err)
		}
	}
}

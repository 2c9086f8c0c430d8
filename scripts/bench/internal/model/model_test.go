package model

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

// ask sends a question to a provider. The returned channel receives the body of the answer.
func ask(t *testing.T, s server, model string) <-chan string {
	t.Helper()
	out := make(chan string, 1)
	go func() {
		body := strings.NewReader(`{"model":"` + model + `","stream":true,"messages":[{"role":"user","content":"hello"}]}`)
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+s.Address()+"/v1/chat/completions", body)
		if err != nil {
			out <- err.Error()
			return
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			out <- err.Error()
			return
		}
		defer res.Body.Close()
		answer, err := io.ReadAll(res.Body)
		if err != nil {
			out <- err.Error()
			return
		}
		out <- string(answer)
	}()
	return out
}

func TestPacedProvider(t *testing.T) {
	t.Parallel()
	p := StartPaced(PieceEvery)
	began := time.Now()
	answer := <-ask(t, p.server, Paced)
	if took := time.Since(began); took < thinking+(pieceCount-1)*PieceEvery {
		t.Errorf("an answer took %s", took)
	}
	if n := strings.Count(answer, `"content":" word`); n != pieceCount || !strings.HasSuffix(answer, "data: [DONE]\n\n") {
		t.Errorf("%d pieces: %s", n, answer)
	}

	p.Hold()
	held := ask(t, p.server, Suspended)
	paced := <-ask(t, p.server, Paced) // takes longer than the first half of the suspended answer, after which that answer pauses
	if paced != answer || p.Active() != 1 || len(held) > 0 {
		t.Errorf("%d answers are held", p.Active())
	}
	p.Release()
	if got := <-held; got != answer {
		t.Errorf("a released answer is %s", got)
	}
	if got := <-ask(t, p.server, "other"); !strings.Contains(got, `model "other"`) {
		t.Errorf("the response for an unknown model is %s", got)
	}
	p.Stop()
}

package httpapi

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gin-gonic/gin"

	"parley/shared/domain"
)

// quiet is a run that tells something at set times and then ends.
type quiet struct {
	began time.Time
	tells []time.Duration
	n     int
}

func (q *quiet) Next(ctx context.Context, until time.Time) ([]domain.Event, error) {
	if q.n == len(q.tells) {
		return nil, io.EOF
	}
	at := q.began.Add(q.tells[q.n])
	told := !at.After(until)
	if !told {
		at = until
	}
	select {
	case <-time.After(time.Until(at)):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if !told {
		return nil, nil
	}
	q.n++
	return []domain.Event{{ID: domain.EventID{Fence: 1, N: q.n}, Type: "a", Data: []byte("{}")}}, nil
}

// timed is a connection that notes when what was written to it.
type timed struct {
	*httptest.ResponseRecorder
	began    time.Time
	wrote    []string
	deadline []time.Duration // of each write, from when it was made
	flushed  []time.Duration
	fail     error
}

func (w *timed) Flush() {
	w.flushed = append(w.flushed, time.Since(w.began))
	w.ResponseRecorder.Flush()
}

func (w *timed) Write(b []byte) (int, error) {
	if w.fail != nil {
		return 0, w.fail
	}
	for frame := range strings.SplitSeq(strings.TrimSuffix(string(b), "\n\n"), "\n\n") {
		line, _, _ := strings.Cut(frame, "\n")
		w.wrote = append(w.wrote, time.Since(w.began).String()+" "+line)
	}
	return w.ResponseRecorder.Write(b)
}

func (w *timed) SetWriteDeadline(at time.Time) error {
	w.deadline = append(w.deadline, time.Until(at))
	return nil
}

func send(t *testing.T, q *quiet, w *timed, ctx context.Context) { //nolint:revive // the test comes first
	t.Helper()
	c, _ := gin.CreateTestContext(w)
	c.Request = httptest.NewRequestWithContext(ctx, http.MethodGet, "/", nil)
	q.began, w.began = time.Now(), time.Now()
	sendEvents(c, "run_1", q) //nolint:contextcheck // the request has it
}

func TestAStreamBeatsEveryTenSeconds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := &timed{ResponseRecorder: httptest.NewRecorder()}
		send(t, &quiet{tells: []time.Duration{0, 3 * time.Second, 25 * time.Second, 35 * time.Second, 41 * time.Second}}, w, t.Context())
		want := "0s id: 1.1|3s id: 1.2|10s : ping|20s : ping|25s id: 1.3|30s : ping|35s id: 1.4|40s : ping|41s id: 1.5"
		if got := strings.Join(w.wrote, "|"); got != want {
			t.Errorf("wrote\n%s\nwant\n%s", got, want)
		}
		for _, d := range w.deadline {
			if d != writeTime {
				t.Errorf("a write may take %s", d)
			}
		}
		if len(w.deadline) < len(w.wrote) || !w.Flushed {
			t.Errorf("%d deadlines for %d writes", len(w.deadline), len(w.wrote))
		}
	})
}

func TestAStreamEndsWithItsClient(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
		defer cancel()
		w := &timed{ResponseRecorder: httptest.NewRecorder()}
		send(t, &quiet{tells: []time.Duration{0, time.Hour}}, w, ctx)
		if got := strings.Join(w.wrote, "|"); got != "0s id: 1.1|10s : ping" {
			t.Errorf("wrote %s", got)
		}
		late := &timed{ResponseRecorder: httptest.NewRecorder()}
		lateCtx, stop := context.WithTimeout(t.Context(), time.Second)
		defer stop()
		send(t, &quiet{tells: []time.Duration{time.Hour}}, late, lateCtx)
		if len(late.flushed) != 1 || late.flushed[0] != 0 || late.Code != http.StatusOK {
			t.Errorf("a stream without news began after %v", late.flushed)
		}
		broken := &timed{ResponseRecorder: httptest.NewRecorder(), fail: errors.New("reset")}
		began := time.Now()
		send(t, &quiet{tells: []time.Duration{time.Second, time.Hour}}, broken, t.Context())
		if took := time.Since(began); took != time.Second {
			t.Errorf("a stream that could not be written ended after %s", took)
		}
	})
}

func TestAStreamWithoutEventsIsAnEmptyOne(t *testing.T) {
	t.Parallel()
	w := &timed{ResponseRecorder: httptest.NewRecorder()}
	send(t, &quiet{}, w, t.Context())
	if w.Code != http.StatusOK || w.Body.Len() != 0 || w.Header().Get("Content-Type") != "text/event-stream" {
		t.Errorf("%d %v %q", w.Code, w.Header(), w.Body)
	}
}

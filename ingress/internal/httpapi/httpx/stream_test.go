package httpx

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gin-gonic/gin"

	"parley/ingress/internal/auth"
	"parley/ingress/internal/stream"
	"parley/shared/apierr"
	"parley/shared/domain"
)

// timedSource is a Source whose events occur at given times.
type timedSource struct {
	began  time.Time
	delays []time.Duration
	n      int
}

func (q *timedSource) Next(ctx context.Context, until time.Time) ([]domain.Event, error) {
	if q.n == len(q.delays) {
		return nil, io.EOF
	}
	at := q.began.Add(q.delays[q.n])
	translated := !at.After(until)
	if !translated {
		at = until
	}
	select {
	case <-time.After(time.Until(at)):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if !translated {
		return nil, nil
	}
	q.n++
	return []domain.Event{{ID: domain.EventID{Fence: 1, N: q.n}, Type: "a", Data: []byte("{}")}}, nil
}

// timedRecorder is a response that records the time of each write.
type timedRecorder struct {
	*httptest.ResponseRecorder
	began    time.Time
	wrote    []string
	deadline []time.Duration // deadline of each write, relative to the start of the write
	flushed  []time.Duration
	fail     error
}

func (w *timedRecorder) Flush() {
	w.flushed = append(w.flushed, time.Since(w.began))
	w.ResponseRecorder.Flush()
}

func (w *timedRecorder) Write(b []byte) (int, error) {
	if w.fail != nil {
		return 0, w.fail
	}
	for frame := range strings.SplitSeq(strings.TrimSuffix(string(b), "\n\n"), "\n\n") {
		line, _, _ := strings.Cut(frame, "\n")
		w.wrote = append(w.wrote, time.Since(w.began).String()+" "+line)
	}
	return w.ResponseRecorder.Write(b)
}

func (w *timedRecorder) SetWriteDeadline(at time.Time) error {
	w.deadline = append(w.deadline, time.Until(at))
	return nil
}

func send(t *testing.T, q *timedSource, w *timedRecorder, ctx context.Context) { //nolint:revive // t comes before ctx
	t.Helper()
	sendAs(t, q, w, ctx, SessionCheck{})
}

func sendAs(t *testing.T, q *timedSource, w *timedRecorder, ctx context.Context, permit SessionCheck) { //nolint:revive // t comes before ctx
	t.Helper()
	c, _ := gin.CreateTestContext(w)
	c.Request = httptest.NewRequestWithContext(ctx, http.MethodGet, "/", nil)
	q.began, w.began = time.Now(), time.Now()
	frame := func(b []byte, e domain.Event) []byte { return stream.AppendFrame(b, "run_1", e) }
	SendStream(c, q, frame, &permit)
}

func TestAStreamSendsPings(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := &timedRecorder{ResponseRecorder: httptest.NewRecorder()}
		send(t, &timedSource{delays: []time.Duration{0, 3 * time.Second, 25 * time.Second, 35 * time.Second, 41 * time.Second}}, w, t.Context())
		want := "0s id: 1.1|3s id: 1.2|10s : ping|20s : ping|25s id: 1.3|30s : ping|35s id: 1.4|40s : ping|41s id: 1.5"
		if got := strings.Join(w.wrote, "|"); got != want {
			t.Errorf("wrote\n%s\nwant\n%s", got, want)
		}
		for _, d := range w.deadline {
			if d != WriteTime {
				t.Errorf("a write may take %s", d)
			}
		}
		if len(w.deadline) < len(w.wrote) || !w.Flushed {
			t.Errorf("%d deadlines for %d writes", len(w.deadline), len(w.wrote))
		}
	})
}

// Writes within one second share a deadline. Therefore each write may take at least WriteTime minus
// one second.
func TestWritesShareADeadline(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := &timedRecorder{ResponseRecorder: httptest.NewRecorder()}
		var at []time.Duration
		for n := range 30 {
			at = append(at, time.Duration(n)*100*time.Millisecond)
		}
		send(t, &timedSource{delays: at}, w, t.Context())
		if len(w.wrote) != len(at) || len(w.deadline) != 3 {
			t.Errorf("%d writes set %d deadlines", len(w.wrote), len(w.deadline))
		}
	})
}

func TestAStreamEndsWithItsClient(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
		defer cancel()
		w := &timedRecorder{ResponseRecorder: httptest.NewRecorder()}
		send(t, &timedSource{delays: []time.Duration{0, time.Hour}}, w, ctx)
		if got := strings.Join(w.wrote, "|"); got != "0s id: 1.1|10s : ping" {
			t.Errorf("wrote %s", got)
		}
		late := &timedRecorder{ResponseRecorder: httptest.NewRecorder()}
		lateCtx, stop := context.WithTimeout(t.Context(), time.Second)
		defer stop()
		send(t, &timedSource{delays: []time.Duration{time.Hour}}, late, lateCtx)
		if len(late.flushed) != 1 || late.flushed[0] != 0 || late.Code != http.StatusOK {
			t.Errorf("a stream without events began after %v", late.flushed)
		}
		broken := &timedRecorder{ResponseRecorder: httptest.NewRecorder(), fail: errors.New("reset")}
		began := time.Now()
		send(t, &timedSource{delays: []time.Duration{time.Second, time.Hour}}, broken, t.Context())
		if took := time.Since(began); took != time.Second {
			t.Errorf("a stream that could not be written ended after %s", took)
		}
	})
}

func TestAStreamWithoutEventsIsAnEmptyOne(t *testing.T) {
	t.Parallel()
	w := &timedRecorder{ResponseRecorder: httptest.NewRecorder()}
	send(t, &timedSource{}, w, t.Context())
	if w.Code != http.StatusOK || w.Body.Len() != 0 || w.Header().Get("Content-Type") != "text/event-stream" {
		t.Errorf("%d %v %q", w.Code, w.Header(), w.Body)
	}
}

// During a stream, the credential is checked again when the cached identity expires, and not more
// often. The stream ends if the credential is no longer valid, if it now belongs to another caller
// or organization, if the caller's role was lowered, or if no check has succeeded for 30 seconds.
func TestAStreamEndsWithItsPermit(t *testing.T) {
	t.Parallel()
	member := domain.Caller{Kind: domain.CallerUser, UserID: "usr_1", OrganizationID: "org_1", Role: domain.RoleMember}
	admin, elsewhere, another := member, member, member
	admin.Role, elsewhere.OrganizationID, another.UserID = domain.RoleAdmin, "org_2", "usr_2"
	refused := func(code apierr.Code) error { return apierr.New(code, "refused") }
	for name, tc := range map[string]struct {
		before, after domain.Caller
		err           error
		ends          string
	}{
		"good":              {member, member, nil, ""},
		"risen":             {member, admin, nil, ""},
		"lowered":           {admin, member, nil, "8s"},
		"in another place":  {member, elsewhere, nil, "8s"},
		"somebody else":     {member, another, nil, "8s"},
		"revoked":           {member, domain.Caller{}, refused(apierr.Unauthenticated), "8s"},
		"removed":           {member, domain.Caller{}, refused(apierr.PermissionDenied), "8s"},
		"cannot be read":    {member, domain.Caller{}, refused(apierr.Unavailable), "34s"},
		"must wait to read": {member, domain.Caller{}, refused(apierr.Overloaded), "34s"},
	} {
		synctest.Test(t, func(t *testing.T) {
			began, looks := time.Now(), 0
			permit := SessionCheck{
				Request: httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil), Org: "org_1", Reads: tc.before.Readable(),
				Next: began.Add(4 * time.Second), Seen: began,
				Resolve: func(*http.Request, auth.Need) (auth.Identity, error) {
					looks++
					if time.Since(began) < 5*time.Second {
						return auth.Identity{Caller: tc.before, Until: time.Now().Add(4 * time.Second)}, nil
					}
					return auth.Identity{Caller: tc.after, Until: time.Now().Add(4 * time.Second)}, tc.err
				},
			}
			w := &timedRecorder{ResponseRecorder: httptest.NewRecorder()}
			sendAs(t, &timedSource{delays: []time.Duration{0, 7 * time.Second, 61 * time.Second}}, w, t.Context(), permit)
			want := "1m1s" // at the end of the run
			if tc.ends != "" {
				want = tc.ends
			}
			if took := time.Since(began).String(); took != want {
				t.Errorf("%s: the stream ended after %s, want %s", name, took, want)
			}
			if got := strings.Join(w.wrote, "|"); !strings.HasPrefix(got, "0s id: 1.1|7s id: 1.2") || strings.Contains(got, "id: 1.3") != (tc.ends == "") {
				t.Errorf("%s: wrote %s", name, got)
			}
			if tc.ends == "" && (looks != 15 || len(w.flushed) != 3+6) {
				t.Errorf("%s: %d looks, %d flushes in a minute", name, looks, len(w.flushed))
			}
		})
	}
}

func TestOpenStreamsAreCounted(t *testing.T) {
	t.Parallel()
	a := &Limiter{StreamLimits: StreamLimits{StreamsPerCredential: 12, StreamsPerOrganization: 14}}
	key := domain.Caller{Kind: domain.CallerUser, OrganizationID: "org_1", Credential: "key_1"}
	other, visitor := key, domain.Caller{Kind: domain.CallerDemo, OrganizationID: domain.DemoOrganization, DemoClient: "192.0.2.1"}
	other.Credential = "key_2"
	guest := func(visitor string) domain.Caller {
		return domain.Caller{
			Kind: domain.CallerUser, OrganizationID: "org_of_" + visitor, Credential: "widget:" + visitor,
			Visitor: domain.Visitor{ID: visitor, AgentID: "ag_1", Client: "192.0.2.1"},
		}
	}
	for _, tc := range []struct {
		who     domain.Caller
		maximum int
		says    string
	}{{key, 12, "credential"}, {other, 2, "organization"}, {visitor, demoStreams, "credential"}, {guest("ada"), visitorStreams, "credential"}} {
		for range tc.maximum {
			if _, err := a.TakeStreams(tc.who); err != nil {
				t.Fatal(err)
			}
		}
		_, err := a.TakeStreams(tc.who)
		var coded *apierr.Error
		if !errors.As(err, &coded) || coded.Code != apierr.RateLimited || coded.RetryAfter <= 0 || !strings.Contains(coded.Error(), tc.says) {
			t.Errorf("%+v: one more stream = %v", tc.who, err)
		}
	}
	for n := range addressStreams - visitorStreams {
		if _, err := a.TakeStreams(guest(strconv.Itoa(n))); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := a.TakeStreams(guest("bob")); err == nil || !strings.Contains(err.Error(), "address") {
		t.Errorf("one more visitor of an address = %v", err)
	}
	a.ConnectionsPerAddress = 3
	for n := range 4 {
		who := domain.Caller{Kind: domain.CallerUser, OrganizationID: "org_" + strconv.Itoa(10+n), Credential: "key_" + strconv.Itoa(10+n), Client: "192.0.2.2"}
		if _, err := a.TakeStreams(who); (err == nil) != (n < 3) || err != nil && !strings.Contains(err.Error(), "address") {
			t.Errorf("stream %d of an address = %v", n, err)
		}
	}
}

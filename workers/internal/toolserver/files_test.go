package toolserver_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"parley/shared/bus"
	"parley/shared/contract"
	"parley/shared/domain"
	"parley/shared/store/blobdb"
	"parley/shared/store/lease"
	"parley/workers/internal/tool"
)

// fakeFiles is the file store of a server under test. It logs the calls of its methods.
type fakeFiles struct {
	err     error
	gone    bool // true if another worker has taken over the run
	content string
	sizes   map[string]int64 // sizes of files by id; by default, the length of the content
	log     []string
}

func (s *fakeFiles) KeepFiles(_ context.Context, held lease.Held, callID string, made []blobdb.NewFile, removed []string, limit int64) ([]domain.File, bool, error) {
	s.log = append(s.log, fmt.Sprintf("keep %s %s %s %d %s %d", held.OrganizationID, held.RunID, callID, held.Fence, removed, limit))
	var files []domain.File
	for _, f := range made {
		s.log = append(s.log, f.Name+" "+f.MIMEType+" "+string(f.Content))
		files = append(files, domain.File{ID: "file_1", Name: f.Name})
	}
	return files, !s.gone, s.err
}

func (s *fakeFiles) SessionFiles(_ context.Context, held lease.Held, callID string) ([]domain.File, bool, error) {
	s.log = append(s.log, fmt.Sprintf("list %s %s %s %d", held.OrganizationID, held.RunID, callID, held.Fence))
	return []domain.File{{ID: "file_1", Name: "a", Bytes: 3}}, !s.gone, s.err
}

func (s *fakeFiles) OpenFile(_ context.Context, org, id string) (domain.File, io.ReadSeekCloser, error) {
	s.log = append(s.log, "open "+org+" "+id)
	return domain.File{ID: id}, content{bytes.NewReader(s.read(id))}, s.err
}

func (s *fakeFiles) FileContents(_ context.Context, org string, ids []string) (contents [][]byte, err error) {
	s.log = append(s.log, "read "+org+" "+strings.Join(ids, ","))
	for _, id := range ids {
		contents = append(contents, s.read(id))
	}
	return contents, s.err
}

func (s *fakeFiles) read(id string) []byte {
	if size, known := s.sizes[id]; known {
		return bytes.Repeat([]byte(id), int(size))
	}
	return []byte(s.content)
}

type content struct{ io.ReadSeeker }

func (content) Close() error { return nil }

func TestFilesAreThoseOfTheCapability(t *testing.T) {
	t.Parallel()
	boom := errors.New("the database is away")
	use := func(ctx context.Context, r tool.Request) (string, error) {
		list, err := r.Files.Session(ctx)
		if err != nil {
			return "", err
		}
		raw, err := r.Files.Read(ctx, list)
		if err != nil {
			return "", err
		}
		kept, err := r.Files.Keep(ctx, []tool.NewFile{{Name: "b", MIMEType: "text/plain", Content: raw[0]}}, []string{"c"})
		if err != nil {
			return "", err
		}
		return kept[0].ID + " " + kept[0].Name, nil
	}
	for name, c := range map[string]struct {
		with fakeFiles
		want string
		log  string
	}{
		"held":      {fakeFiles{content: "123"}, "file_1 b", "list org_1 run_1 call_1 3; read org_1 file_1; keep org_1 run_1 call_1 3 [c] 1000; b text/plain 123"},
		"not held":  {fakeFiles{gone: true}, "error: " + tool.ErrStale.Error(), "list org_1 run_1 call_1 3"},
		"away":      {fakeFiles{err: boom}, "error: listing files of the session: " + boom.Error(), "list org_1 run_1 call_1 3"},
		"too short": {fakeFiles{content: "12"}, "error: reading file_1: the file's content does not match its record", "list org_1 run_1 call_1 3; read org_1 file_1"},
		"too long":  {fakeFiles{content: "1234"}, "error: reading file_1: the file's content does not match its record", "list org_1 run_1 call_1 3; read org_1 file_1"},
	} {
		o, got := newOffice(endpoints), ""
		o.files = c.with
		start(t, o, prometheus.NewRegistry(), backend{kind: contract.ToolHTTPRequest, call: func(ctx context.Context, r tool.Request) (tool.Result, error) {
			said, err := use(ctx, r)
			if got = said; err != nil {
				got = "error: " + err.Error()
			}
			return tool.Result{}, err
		}})
		reply := o.answer(t, sealed(t, capability(), request(false)))
		if log := strings.Join(o.files.log, "; "); got != c.want || log != c.log || c.with.gone != (replySummary(reply) == "stale") {
			t.Errorf("%s: %s; %s; %s", name, got, log, replySummary(reply))
		}
	}
	for _, c := range []struct {
		with fakeFiles
		want error
	}{
		{fakeFiles{err: fmt.Errorf("keeping files: %w", blobdb.ErrFilesFull)}, tool.ErrFilesFull}, {fakeFiles{gone: true}, tool.ErrStale}, {fakeFiles{err: boom}, boom},
	} {
		o := newOffice(endpoints)
		o.files = c.with
		start(t, o, prometheus.NewRegistry(), backend{kind: contract.ToolHTTPRequest, call: func(ctx context.Context, r tool.Request) (tool.Result, error) {
			if _, err := r.Files.Keep(ctx, nil, nil); !errors.Is(err, c.want) {
				t.Errorf("got %v", err)
			}
			return tool.Result{}, nil
		}})
		o.answer(t, sealed(t, capability(), request(false)))
	}
}

// Small files are read in batches. Large files are read individually.
func TestSmallFilesAreReadTogether(t *testing.T) {
	t.Parallel()
	const small = blobdb.SmallFile
	o := newOffice(endpoints)
	o.files.sizes = map[string]int64{"a": 0, "b": small, "c": 1, "d": small + 1, "e": 5, "f": small - 5, "g": 1, "h": 3 * small}
	var list []domain.File
	for id, size := range o.files.sizes {
		list = append(list, domain.File{ID: id, Bytes: size})
	}
	slices.SortFunc(list, func(x, y domain.File) int { return strings.Compare(x.ID, y.ID) })
	start(t, o, prometheus.NewRegistry(), backend{kind: contract.ToolHTTPRequest, call: func(ctx context.Context, r tool.Request) (tool.Result, error) {
		contents, err := r.Files.Read(ctx, list)
		if err != nil || len(contents) != len(list) {
			t.Errorf("%d contents, %v", len(contents), err)
			return tool.Result{}, err
		}
		for n, f := range list {
			if !bytes.Equal(contents[n], o.files.read(f.ID)) {
				t.Errorf("%s has another content", f.ID)
			}
		}
		none, err := r.Files.Read(ctx, nil)
		if len(none) != 0 {
			t.Errorf("no files: %v", none)
		}
		return tool.Result{}, err
	}})
	o.answer(t, sealed(t, capability(), request(false)))
	if log := strings.Join(o.files.log, "; "); log != "read org_1 a,b; read org_1 c; open org_1 d; read org_1 e,f; read org_1 g; open org_1 h" {
		t.Error(log)
	}
}

// TestAFailedCallShowsItsOutput: the output of a failed call is shown like the output of a
// successful call.
func TestAFailedCallShowsItsOutput(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 70<<10)
	for name, c := range map[string]struct{ output, want string }{
		"all of it":        {`{"error":"no.","stdout":"1"}`, `{"error":"no.","stdout":"1"}`},
		"nothing":          {``, ``},
		"no error in it":   {`{"stdout":"1"}`, ``},
		"another error":    {`{"error":{"code":1}}`, ``},
		"no object":        {`[1]`, ``},
		"no JSON":          {`{"error":"x"`, ``},
		"too large":        {`{"error":"no.","stdout":"` + long + `"}`, ``},
		"broken text":      {"{\"error\":\"\xff\"}", "{\"error\":\"\uFFFD\"}"},
		"as large as many": {`{"error":"` + long[:60<<10] + `"}`, `{"error":"` + long[:60<<10] + `"}`},
	} {
		for _, effect := range []bool{false, true} {
			o := newOffice(endpoints)
			start(t, o, prometheus.NewRegistry(), backend{kind: contract.ToolHTTPRequest, call: func(ctx context.Context, r tool.Request) (tool.Result, error) {
				if effect {
					if err := r.Sending(ctx); err != nil {
						return tool.Result{}, err
					}
				}
				return tool.Result{}, &tool.Error{Message: "no.", NotSent: true, Output: json.RawMessage(c.output)}
			}})
			reply := o.answer(t, sealed(t, capability(), request(effect)))
			if replySummary(reply) != "failed: no." || string(reply.Output) != c.want {
				t.Errorf("%s: %s: %.100s", name, replySummary(reply), reply.Output)
			}
			if effect && !strings.Contains(string(o.outcome), c.want) {
				t.Errorf("%s: kept %.100s", name, o.outcome)
			}
		}
	}
}

// slotsBackend is a backend that determines its own number of slots.
type slotsBackend struct{ backend }

func (slotsBackend) Serving() (slots, queue int) { return 3, 7 }

func TestABackendMayLimitItsCalls(t *testing.T) {
	t.Parallel()
	o, metrics := newOffice(endpoints), prometheus.NewRegistry()
	start(t, o, metrics, slotsBackend{backend{kind: contract.ToolCodeExecution}}, backend{kind: contract.ToolWebSearch})
	own, other := o.serving[contract.ToolCodeExecution], o.serving[contract.ToolWebSearch]
	if own.Slots != 3 || own.Queue != 7 || other.Slots != 8 || other.Queue != 2 {
		t.Errorf("serving %+v and %+v", own, other)
	}
	own.Observe(3, 5)
	other.Observe(1, 0)
	families, err := metrics.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, family := range families {
		for _, m := range family.GetMetric() {
			all = append(all, fmt.Sprintf("%s{%s} %g", family.GetName(), m.GetLabel()[0].GetValue(), m.GetGauge().GetValue()))
		}
	}
	want := "parley_tool_calls_running{codeExecution} 3, parley_tool_calls_running{webSearch} 1, " +
		"parley_tool_calls_waiting{codeExecution} 5, parley_tool_calls_waiting{webSearch} 0"
	if got := strings.Join(all, ", "); got != want {
		t.Errorf("gauges %s", got)
	}
}

// TestFilesOnARealStore runs calls of two sessions of one organization, and of a session of another
// organization. No call can access the files of another session.
func TestFilesOnARealStore(t *testing.T) {
	t.Parallel()
	s := newService(t, backend{kind: contract.ToolHTTPRequest, call: func(ctx context.Context, r tool.Request) (tool.Result, error) {
		var names []string
		list, err := r.Files.Session(ctx)
		if err != nil {
			return tool.Result{}, err
		}
		contents, err := r.Files.Read(ctx, list)
		if err != nil {
			return tool.Result{}, err
		}
		for n, f := range list {
			names = append(names, f.Name+"="+string(contents[n]))
		}
		made := []tool.NewFile{{Name: r.Call.Name, MIMEType: "text/plain", Content: []byte("of " + r.RunID)}}
		if r.Call.Name == "large" {
			made[0].Content = make([]byte, 1<<15)
		}
		var removed []string
		if r.Call.Name == "third" {
			removed = []string{"first"}
		}
		if _, err := r.Files.Keep(ctx, made, removed); err != nil {
			return tool.Result{}, &tool.Error{Message: err.Error()}
		}
		return tool.Result{Output: json.RawMessage(`"` + strings.Join(names, " ") + `"`)}, nil
	}})
	own := s.claims
	other := s.begin("b@example.com") // the run of another organization has the same session id
	call := func(claims contract.Capability, callID string) string {
		t.Helper()
		s.claims = claims
		s.prepare(callID)
		reply, err := s.call(callID)
		if err != nil {
			t.Fatal(err)
		}
		return strings.ReplaceAll(strings.ReplaceAll(replySummary(reply), own.RunID, "A"), other.RunID, "B")
	}
	for n, c := range []struct {
		claims       contract.Capability
		callID, want string
	}{
		{own, "first", `""`},
		{other, "first", `""`},
		{own, "second", `"first=of A"`},
		{own, "second", `"first=of A"`}, // the repeated call finds the same files as the first call
		{own, "large", "failed: " + tool.ErrFilesFull.Error()},
		{own, "third", `"first=of A second=of A"`},
		{own, "fourth", `"second=of A third=of A"`},
		{other, "second", `"first=of B"`},
	} {
		if got := call(c.claims, c.callID); got != c.want {
			t.Errorf("%d, %s: %s", n, c.callID, got)
		}
	}
	stale := own
	stale.Fence++
	s.claims = stale
	if reply, err := s.call("late"); err != nil || replySummary(reply) != "stale" {
		t.Errorf("%s, %v", replySummary(reply), err)
	}
}

// fourSlots is a backend with four slots and a queue of twelve calls.
type fourSlots struct{ backend }

func (fourSlots) Serving() (slots, queue int) { return 4, 12 }

// TestSlotsAreShared: over a real bus, three organizations send more calls than a worker has slots.
// The first call of the last organization starts when a call of the first organization ends. From
// then on, no organization uses more than its share.
func TestSlotsAreShared(t *testing.T) {
	t.Parallel()
	began, ends := make(chan string, 64), sync.Map{} // channels by organization
	s := newService(t, fourSlots{backend{kind: contract.ToolHTTPRequest, call: func(ctx context.Context, r tool.Request) (tool.Result, error) {
		began <- r.OrganizationID
		end, _ := ends.Load(r.OrganizationID)
		select {
		case <-end.(chan struct{}):
		case <-ctx.Done():
		}
		return tool.Result{}, ctx.Err()
	}}})
	first, second, third := s.claims, s.begin("b@example.com"), s.begin("c@example.com")
	answered := make(chan error, 64)
	flood := func(c contract.Capability, calls int) {
		for n := range calls {
			c.CallID, c.Expires = fmt.Sprintf("call_%d", n), time.Now().Add(time.Minute).UTC()
			m := sealed(t, c, contract.ToolRequest{Operation: contract.OperationCall, CallID: c.CallID, Name: "look", EffectKey: contract.EffectKey(c.RunID, c.CallID)})
			go func() {
				_, err := s.caller.Call(t.Context(), c.Kind, m.Capability, m.Body, m.Deadline)
				for errors.Is(err, bus.ErrNoToolWorker) { // this fails until the worker has subscribed
					_, err = s.caller.Call(t.Context(), c.Kind, m.Capability, m.Body, m.Deadline)
				}
				answered <- err
			}()
		}
	}
	held := map[string]int{}
	next := func(want contract.Capability) {
		t.Helper()
		org := <-began
		if held[org]++; org != want.OrganizationID {
			t.Fatalf("%s begins: %v", org, held)
		}
	}
	end := func(c contract.Capability) {
		end, _ := ends.Load(c.OrganizationID)
		end.(chan struct{}) <- struct{}{}
		held[c.OrganizationID]--
	}
	for _, c := range []contract.Capability{first, second, third} {
		ends.Store(c.OrganizationID, make(chan struct{}))
	}
	flood(first, 5)
	for range 3 {
		next(first)
	}
	flood(second, 5)
	next(second)
	flood(third, 4)
	s.awaitWaiting(10)
	end(first)
	next(third)
	end(second)
	next(second)
	end(third)
	next(third)
	for _, c := range []contract.Capability{first, second, third} {
		if held[c.OrganizationID] > 2 {
			t.Errorf("more than a share: %v", held)
		}
		end, _ := ends.Load(c.OrganizationID)
		close(end.(chan struct{}))
	}
	for range 14 {
		if err := <-answered; err != nil {
			t.Error(err)
		}
	}
	s.awaitWaiting(0)
}

// awaitWaiting waits until the given number of calls waits for a slot.
func (s *service) awaitWaiting(calls float64) {
	s.Helper()
	for {
		families, err := s.gauges.Gather()
		if err != nil || s.Context().Err() != nil {
			s.Fatal(err)
		}
		for _, family := range families {
			if family.GetName() == "parley_tool_calls_waiting" && family.GetMetric()[0].GetGauge().GetValue() == calls {
				return
			}
		}
		runtime.Gosched()
	}
}

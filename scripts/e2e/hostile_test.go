package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"

	"parley/scripts/internal/realtimeclient"
)

// The WebSocket close codes of a voice session.
const (
	closePolicy = 1008
	closeTooBig = 1009
)

// attack is one way in which a client of the voice API attacks the service. The field name
// describes the attack in the test's output.
type attack struct {
	name string
	do   func(t *testing.T, owner account, in *edge)
}

// attacks contains the attacks that run in parallel during another organization's voice session.
// Tests in the package realtime cover messages that are only invalid.
var attacks = []attack{
	{"messages above a mebibyte", giants},
	{"floods of events", eventFlood},
	{"a flood of audio", soundFlood},
	{"a turn that never ends", endlessTurn},
	{"clients that never read", neverRead},
	{"upgrades that never end", slowUpgrades},
}

const (
	// seats is an organization's maximum number of concurrent voice sessions. It exceeds the 21
	// sessions that the attacks open in parallel, because a client may reconnect before the service
	// has noticed that its old connection is gone.
	seats = 32
	// unread is the number of clients that never read from their connections.
	unread = 12
)

// TestVoiceHostileClients runs attacks by clients of one organization during another organization's
// voice session. The attacks must not disturb this session or fill the ingress's memory.
func TestVoiceHostileClients(t *testing.T) {
	nightly(t, "its limits are delays that a listener would notice, so they need an idle machine")
	t.Parallel()
	needsVoice(t)
	c, l := newCluster(t, "VOICE_PER_ORGANIZATION="+strconv.Itoa(seats), "LIMIT_USER=50000", "LIMIT_SYSTEM=60000"), newListener(t, "something")
	in := c.ingress(t)
	c.worker(t, "ROLES=agent")
	c.voiceWorker(t, l)
	owner, other := signUp(t, in.url).speaks(t), signUp(t, in.url).speaks(t)
	beside := other.chatter(t, in)
	run := func(h attack) func(*testing.T) {
		return func(t *testing.T) {
			t.Helper()
			h.do(t, owner, in)
		}
	}

	const last = "vanished clients" // this attack takes half a minute, in which its clients do nothing
	gone := runTogether(t, map[string]func(*testing.T){last: run(attack{last, vanished})})
	alone, all := beside.turns(t, 6), map[string]func(*testing.T){}
	beside.memory.resident(t)
	for _, h := range attacks {
		all[h.name] = run(h)
	}

	runTogether(t, all)()
	t.Logf("memory of the ingress: %d MiB", beside.memory.resident(t)>>20)
	gone()
	t.Run("a thousand connections too many", run(attack{do: tooMany}))
	for _, k := range owner.allSeats(t, "the excess connections") {
		k.Leave()
	}

	t.Logf("memory of the ingress: %d MiB", beside.memory.resident(t)>>20)
	disturbed := beside.turns(t, 1)
	beside.stop()
	beside.compare(t, alone, disturbed)
}

// chatter is a voice session that asks questions automatically and records the latencies of the
// answers.
type chatter struct {
	memory *memory
	cancel context.CancelFunc
	done   chan struct{}

	mu    sync.Mutex
	took  []time.Duration
	hurt  time.Duration // total time in which a listener would have heard silence because audio was late
	fault error
}

// chatter starts a voice session that asks one question after the other, at most one a second.
func (a account) chatter(t *testing.T, in *edge) *chatter {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	b := &chatter{memory: &memory{pid: in.PID()}, cancel: cancel, done: make(chan struct{})}
	line, err := realtimeclient.Dial(ctx, realtimeclient.Options{BaseURL: a.url, Key: a.key, Model: a.agent, Session: "beside"})
	if err != nil {
		t.Fatal(err)
	}

	t.Cleanup(b.stop)
	go func() {
		defer close(b.done)
		err := b.talk(ctx, line)
		b.mu.Lock()
		defer b.mu.Unlock()
		if ctx.Err() == nil {
			b.fault = err
		}
	}()
	return b
}

func (b *chatter) stop() {
	b.cancel()
	<-b.done
}

// talk asks one question after the other and records the latencies, until ctx ends. It stops at the
// first wrong answer.
func (b *chatter) talk(ctx context.Context, line *realtimeclient.Client) error {
	if _, _, err := line.Until(ctx, "session.created"); err != nil {
		return err
	}

	tick := time.NewTicker(time.Second / 2)
	defer tick.Stop()

	for n := 0; ; n++ {
		began, text := time.Now(), fmt.Sprintf("This is the question with the number %d, and I wonder what comes next.", n)
		if err := line.Ask(ctx, text); err != nil {
			return err
		}
		a, err := line.Answer(ctx)
		if err != nil {
			return err
		}
		if a.Response.Status != "completed" || a.Transcript != "echo: "+text || len(a.Frames) == 0 {
			return fmt.Errorf("%s: %s %q", text, a.Response.Status, a.Transcript)
		}
		b.mu.Lock()
		b.took = append(b.took, a.Frames[0].At.Sub(began))
		b.hurt += a.StarvedTime()
		b.mu.Unlock()
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// turns waits for n more turns, and returns the latencies of all turns since the last call.
func (b *chatter) turns(t *testing.T, n int) (took []time.Duration) {
	t.Helper()
	b.mu.Lock()
	want := len(b.took) + n
	b.mu.Unlock()
	eventually(t, 2*time.Minute, "the other voice session continues", func() bool {
		b.mu.Lock()
		defer b.mu.Unlock()
		if b.fault != nil {
			t.Fatalf("the other voice session ended: %v", b.fault)
		}
		if len(b.took) < want {
			return false
		}
		took, b.took = b.took, nil
		return true
	})
	return took
}

// compare checks the latencies during the attacks against those without attacks. The limits are
// delays that a listener would notice.
func (b *chatter) compare(t *testing.T, alone, disturbed []time.Duration) {
	t.Helper()
	const margin, waited = 300 * time.Millisecond, 5 * time.Millisecond
	slices.Sort(alone)
	slices.Sort(disturbed)
	at := func(took []time.Duration, percent int) time.Duration { return took[(len(took)-1)*percent/100] }
	t.Logf("during the attacks, %d turns: p50 %s, p95 %s, worst %s; alone, %d turns: p50 %s, p95 %s; a listener waited for %s", len(disturbed),
		at(disturbed, 50), at(disturbed, 95), at(disturbed, 100), len(alone), at(alone, 50), at(alone, 95), b.hurt)
	// A single turn may be slow, because the attacking clients use the same CPU cores as the
	// service.
	if at(disturbed, 50) > 2*at(alone, 50)+margin || at(disturbed, 100) > 5*time.Second+5*margin {
		t.Error("the other voice session was disturbed")
	}
	if b.hurt > time.Duration(len(disturbed))*waited {
		t.Errorf("a listener had to wait for %s", b.hurt)
	}
}

// memory checks that the resident memory of a process does not grow too far.
type memory struct {
	pid    int
	before int
}

var residentLine = regexp.MustCompile(`VmRSS:\s+(\d+) kB`)

// resident returns the process's resident memory in bytes. It fails the test if the memory has
// grown too far since the first call.
func (m *memory) resident(t *testing.T) (bytes int) {
	t.Helper()
	const room = 96 << 20 // allows for garbage that is not collected yet
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", m.pid))
	if err != nil {
		t.Fatal(err)
	}

	found := residentLine.FindSubmatch(status)
	if found == nil {
		t.Fatalf("%s", status)
	}

	kib, err := strconv.Atoi(string(found[1]))
	if err != nil {
		t.Fatal(err)
	}
	if m.before == 0 {
		m.before = kib << 10
	}
	if grown := kib<<10 - m.before; grown > room {
		t.Errorf("the ingress's memory has grown by %d MiB to %d MiB", grown>>20, kib>>10)
	}
	return kib << 10
}

// allSeats opens as many voice sessions as the organization may have, which succeeds only if
// earlier sessions have released their slots. It retries, because a slot is released only when the
// service notices that the client is gone.
func (a account) allSeats(t *testing.T, behind string) (open []*talk) {
	t.Helper()
	for range seats {
		eventually(t, 10*time.Second, "all slots are free after "+behind, func() bool {
			line, err := a.dial(t, "")
			if err == nil {
				open = append(open, &talk{Client: line, t: t})
				return true
			}
			if refusal, ok := errors.AsType[*realtimeclient.RefusedError](err); !ok || refusal.Status != http.StatusTooManyRequests {
				t.Fatal(err)
			}
			return false
		})
	}
	return open
}

// wantError reads events up to an error event, which must have the given code and parameter.
func (k *talk) wantError(code, param string) {
	k.t.Helper()
	e, _ := k.until("error")
	got := ""
	if e.Error.Param != nil {
		got = *e.Error.Param
	}
	if e.Error.Code != code || got != param || e.Error.Message == "" || e.Error.Type == "" {
		k.t.Errorf("want %s of %q: %s", code, param, e.Raw)
	}
}

// wantClosed reads events until the service closes the voice session, which it must do with the
// given code.
func (k *talk) wantClosed(code int) (all []realtimeclient.Event) {
	k.t.Helper()
	got, all := k.closed(patience)
	if got != code {
		k.t.Errorf("close code = %d, want %d, after %s", got, code, realtimeclient.Types(all))
	}
	return all
}

// raw sends a WebSocket message without checking it. It returns false if the service has closed the
// voice session.
func (k *talk) raw(kind websocket.MessageType, raw []byte) bool {
	return k.SendRaw(k.t.Context(), kind, raw) == nil
}

// alive checks that the voice session still answers after errors.
func (k *talk) alive() {
	k.t.Helper()
	k.ask("Are you there?")
	if got := k.answer(); got.Transcript != "echo: Are you there?" {
		k.t.Errorf("%q", got.Transcript)
	}
}

func giants(t *testing.T, owner account, _ *edge) {
	t.Helper()
	message := []byte(`{"type":"input_audio_buffer.append","audio":"` + strings.Repeat("A", 64<<20) + `"}`)
	all := map[string]func(*testing.T){}
	for n := range 4 {
		all[strconv.Itoa(n)] = func(t *testing.T) {
			t.Helper()
			k := owner.converse(t, "")
			k.raw(websocket.MessageText, message)
			k.wantClosed(closeTooBig)
		}
	}
	runTogether(t, all)()
}

// eventFlood sends events of several kinds as fast as possible.
func eventFlood(t *testing.T, owner account, _ *edge) {
	t.Helper()
	for _, event := range []string{
		`{"type":"input_audio_buffer.clear"}`,
		`{"type":"session.update","session":{"type":"realtime","instructions":"` + strings.Repeat("x", 1000) + `"}}`,
		`{"type":"conversation.item.create","item":{"type":"message","role":"user","content":[{"type":"input_text","text":"more"}]}}`,
	} {
		k := owner.converse(t, "")
		for range 20_000 {
			if !k.raw(websocket.MessageText, []byte(event)) {
				break
			}
		}
		all := k.wantClosed(closePolicy)
		if last := all[len(all)-1]; last.Error == nil || last.Error.Code != "rate_limit_exceeded" {
			t.Errorf("%.40s: last of %d events = %s", event, len(all), last.Raw)
		}
	}
}

// soundFlood sends minutes of audio as fast as the connection accepts them. The service must slow
// the client down to the speed at which the service can recognize speech.
func soundFlood(t *testing.T, owner account, _ *edge) {
	t.Helper()
	k := owner.converse(t, "")
	defer k.Leave()
	second := realtimeclient.Silence(time.Second)
	for range 6 * 60 {
		k.within(func(ctx context.Context) error { return k.Append(ctx, second) })
	}
	k.alive()
}

// endlessTurn sends audio without committing it, so that the user's turn never ends.
func endlessTurn(t *testing.T, owner account, _ *edge) {
	t.Helper()
	k := owner.converse(t, "")
	defer k.Leave()

	k.update(map[string]any{"audio": map[string]any{"input": map[string]any{"turn_detection": nil}}})
	second := realtimeclient.Silence(time.Second)
	for range 130 {
		k.within(func(ctx context.Context) error { return k.Append(ctx, second) })
	}

	k.wantError("input_audio_buffer_full", "audio")
	k.within(func(ctx context.Context) error {
		return k.Send(ctx, map[string]any{"type": "input_audio_buffer.clear"})
	})

	k.until("input_audio_buffer.cleared")
	k.alive()
}

// neverRead requests answers and never reads from the connection.
func neverRead(t *testing.T, owner account, in *edge) {
	t.Helper()
	long := strings.Repeat(spoken+" ", 8)
	var sockets []*rawSocket
	for range unread {
		s := owner.rawUpgrade(t, in)
		item := map[string]any{"type": "message", "role": "user", "content": []any{map[string]any{"type": "input_text", "text": long}}}
		s.send(map[string]any{"type": "conversation.item.create", "item": item})
		s.send(map[string]any{"type": "response.create"})
		sockets = append(sockets, s)
	}

	for _, s := range sockets {
		s.awaitGone(in, 90*time.Second)
	}
}

// awaitGone waits until the service has closed the connection. A client that does not read cannot
// notice this, so awaitGone looks for the connection in the kernel's table of TCP connections.
func (s *rawSocket) awaitGone(in *edge, within time.Duration) {
	s.t.Helper()
	const established = "01"
	address, ok := s.conn.LocalAddr().(*net.TCPAddr)
	if !ok {
		s.t.Fatalf("%T", s.conn.LocalAddr())
	}

	here, there := fmt.Sprintf(":%04X", in.port), fmt.Sprintf(":%04X", address.Port)
	eventually(s.t, within, "the connection of a client that does not read is closed", func() bool {
		table, err := os.ReadFile("/proc/net/tcp")
		if err != nil {
			s.t.Fatal(err)
		}
		for line := range strings.Lines(string(table)) {
			field := strings.Fields(line)
			if len(field) > 3 && strings.HasSuffix(field[1], here) && strings.HasSuffix(field[2], there) && field[3] == established {
				return false
			}
		}
		return true
	})
}

// vanished opens connections whose clients stop answering pings, like those on an unplugged
// machine. One client stops while idle, another in the middle of a message.
func vanished(t *testing.T, owner account, in *edge) {
	t.Helper()
	idle, half := owner.rawUpgrade(t, in), owner.rawUpgrade(t, in)
	half.write(framed(frameText, bytes.Repeat([]byte("x"), 1000))[:100])
	began := time.Now()
	for _, s := range []*rawSocket{idle, half} {
		err := s.drain(time.Minute)
		if timeout, ok := errors.AsType[net.Error](err); ok && timeout.Timeout() || time.Since(began) < 10*time.Second {
			t.Errorf("a vanished client's connection was closed after %s: %v", time.Since(began), err)
		}
	}
}

// slowUpgrades opens connections that send their upgrade requests byte by byte.
func slowUpgrades(t *testing.T, owner account, in *edge) {
	t.Helper()
	request := owner.request(in)
	var sockets []*rawSocket
	for range 200 {
		s := rawDial(t, in)
		s.write([]byte(request[:20]))
		sockets = append(sockets, s)
	}

	for n, s := range sockets {
		eventually(t, 20*time.Second, "the connection of an endless request is closed", func() bool {
			_, err := s.conn.Write([]byte(request[20+n%20 : 21+n%20]))
			return err != nil
		})
	}
}

// tooMany occupies all slots of the organization, and tries to open a thousand more voice sessions.
func tooMany(t *testing.T, owner account, in *edge) {
	t.Helper()
	open := owner.allSeats(t, "the hostile")
	var dials sync.WaitGroup
	refused := make(chan error, 1000)
	at := make(chan struct{}, 50)
	for range cap(refused) {
		dials.Go(func() {
			at <- struct{}{}
			defer func() { <-at }()
			line, err := owner.dial(t, "")
			if err == nil {
				line.Leave()
			}
			refused <- err
		})
	}

	dials.Wait()
	close(refused)
	for err := range refused {
		if refusal, ok := errors.AsType[*realtimeclient.RefusedError](err); !ok || refusal.Status != http.StatusTooManyRequests || !strings.Contains(refusal.Body, `"error"`) {
			t.Fatalf("opening one connection too many: %v", err)
		}
	}

	for _, k := range open {
		k.alive()
		k.Leave()
	}

	in.awaitReady(t)
}

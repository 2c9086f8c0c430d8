package runner

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"parley/shared/domain"
	"parley/workers/internal/agentloop"
)

// pacedWriter returns a writer that uses the pace p. It records the events that the writer
// publishes, with their times.
func pacedWriter(p *pace) (*writerEnv, *[]string) {
	tt, began := newWriterEnv(1), time.Now()
	published := new([]string)
	tt.pace = p
	tt.publish = func(_ string, c domain.EventChunk) {
		*published = append(*published, time.Since(began).String()+" "+strings.TrimSuffix(string(c.Lines), "\n"))
	}
	return tt, published
}

func wantPublished(t *testing.T, got []string, want ...string) {
	t.Helper()
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("published\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// A single piece is published immediately. Pieces that arrive together become one event, which is
// published after at most paceWindow.
func TestPiecesThatComeTogetherAreOneEvent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tt, published := pacedWriter(&pace{})
		for _, at := range []int{0, 1, 2, 5, 6, 30, 60, 61} {
			<-time.After(time.Duration(at)*time.Millisecond - time.Since(tt.epoch))
			tt.say(fmt.Sprintf("%d,", at))
		}
		<-time.After(time.Second)
		tt.closeAndWait(t.Context())
		wantPublished(t, *published,
			`0s message.delta {"text":"0,"}`,
			`4ms message.delta {"text":"1,2,"}`,
			`8ms message.delta {"text":"5,6,"}`,
			`30ms message.delta {"text":"30,"}`,
			`60ms message.delta {"text":"60,"}`,
			`64ms message.delta {"text":"61,"}`,
		)
	})
}

// Pieces of different runs that arrive together are published at the same time.
func TestRunsPublishTogether(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		shared := &pace{}
		a, fromA := pacedWriter(shared)
		b, fromB := pacedWriter(shared)
		c, fromC := pacedWriter(shared)
		a.say("a")
		<-time.After(time.Millisecond)
		b.say("b")
		<-time.After(time.Millisecond)
		c.say("c")
		<-time.After(time.Second)
		for _, w := range []*writerEnv{a, b, c} {
			w.closeAndWait(t.Context())
		}
		wantPublished(t, *fromA, `0s message.delta {"text":"a"}`)
		wantPublished(t, *fromB, `4ms message.delta {"text":"b"}`)
		wantPublished(t, *fromC, `4ms message.delta {"text":"c"}`)
	})
}

// A waiting piece is published before everything that follows it: an event of another type, a long
// text, or the end of the run. These do not wait for the end of the window.
func TestAPieceThatWaitsKeepsItsPlace(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tt, published := pacedWriter(&pace{})
		tt.say("a")
		tt.say("b")
		tt.loop(agentloop.Event{Type: agentloop.EventCitation, Citation: nil})
		tt.say("c")
		long := strings.Repeat("d", maxPiece)
		tt.say(long)
		tt.say("e")
		tt.closeAndWait(t.Context())
		chunk, end := tt.rest(answered("abc" + long + "e"))
		want := []string{
			`0s message.delta {"text":"a"}`, `0s message.delta {"text":"b"}`, `0s citation.added {"citation":null}`,
			`0s message.delta {"text":"c` + long + `"}`, `0s message.delta {"text":"e"}`,
		}
		wantPublished(t, *published, want...)
		if saved := "0s " + strings.ReplaceAll(strings.TrimSuffix(chunk.Events, "\n"), "\n", "\n0s "); saved != strings.Join(want, "\n") || end != 7 {
			t.Errorf("saved\n%s\nended at %d", saved, end)
		}
		<-time.After(time.Second)
		if len(*published) != len(want) {
			t.Errorf("published %q after the end", (*published)[len(want):])
		}
	})
}

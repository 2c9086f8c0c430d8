package realtime

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	"parley/shared/contract"
)

const manual = `{"audio":{"input":{"turn_detection":null}}}`

func audioItem(id string, ms int) string {
	return fmt.Sprintf(`client {"type":"conversation.item.create","item":{"id":%q,"type":"message","role":"user","content":[{"type":"input_audio","audio":%q}]}}`,
		id, base64.StdEncoding.EncodeToString(make([]byte, ms*perMS*sampleBytes)))
}

func deletion(id string) string {
	return `client {"type":"conversation.item.delete","item_id":"` + id + `"}`
}

// Deleting an item that waits for its transcript does not make room for other audio, because the
// worker still transcribes it.
func TestDeletedItemsAreBounded(t *testing.T) {
	t.Parallel()
	for _, ms := range []int{100, 16_000} {
		r := newTestEnv(t, manual)
		refused := 0
		for range 300 {
			r.take(r.c.Client(r.now, appended(ms)))
			r.do(`client {"type":"input_audio_buffer.commit"}`)
			if !strings.HasPrefix(r.lastLine(), "commit ") {
				refused++
			} else {
				r.do(deletion(strings.Fields(r.lastLine())[1]))
			}
			in := &r.c.input
			if kept := in.end - in.blocks[0].at; len(in.waits) > maxWaits || kept > maxKept+contract.VoiceRate {
				t.Fatalf("%d wait, %d s are kept", len(in.waits), kept/contract.VoiceRate)
			}
		}
		if refused < 200 {
			t.Errorf("%d of 300 were refused", refused)
		}
		if _, busy := r.c.Idle(r.now); busy {
			t.Error("a conversation with nothing pending is busy")
		}
		for len(r.c.input.waits) > 0 {
			before := len(r.lines)
			r.do("transcript " + r.c.input.waits[0].line + " what was deleted")
			if len(r.lines) != before {
				t.Fatalf("a deleted item caused %s", r.lastLine())
			}
		}
		r.do(`client {"type":"input_audio_buffer.clear"}`)
		r.do("hear 100")
		r.do(`client {"type":"input_audio_buffer.commit"}`)
		if !strings.HasPrefix(r.lastLine(), "commit ") {
			t.Errorf("there is still no room: %s", r.lastLine())
		}
	}
}

func TestDeletedItemsDelayNothing(t *testing.T) {
	t.Parallel()
	r := newTestEnv(t, manual)
	for _, line := range []string{audioItem("mine", 200), deletion("mine"), audioItem("mine", 200)} {
		r.do(line)
	}
	if !strings.Contains(r.lastLine(), `error.param="item.id"`) { // the worker still uses the id for the deleted item
		t.Errorf("the name is free: %s", r.lastLine())
	}
	r.do(`client {"type":"response.create","response":{"instructions":"x"}}`)
	if !strings.HasPrefix(r.lastLine(), "begin") {
		t.Errorf("the response waits for a deleted item: %s", r.lastLine())
	}
	r.do("resume")
	if len(r.c.input.waits) != 0 || !strings.HasPrefix(r.lastLine(), "opens at 200 ") {
		t.Errorf("another worker would transcribe it: %s", r.lastLine())
	}
	r.do(audioItem("mine", 200))
	if r.lastLine() != "commit mine 200 to 400" {
		t.Errorf("the name is not free: %s", r.lastLine())
	}
}

// The audio of an inserted item precedes the uncommitted audio. The uncommitted audio must
// therefore be sent to the worker again after the item. At most two seconds of audio are sent
// again.
func TestAnItemDoesNotRepeatTheBuffer(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		before []string
		want   string
	}{
		"little is there":    {[]string{"hear 2000"}, "commit mine 2000 to 2100"},
		"more is there":      {[]string{"hear 2001"}, `error.code="input_audio_buffer_uncommitted"`},
		"much was committed": {[]string{"hear 16000", `client {"type":"input_audio_buffer.commit"}`}, "commit mine 16000 to 16100"},
		"much was cleared":   {[]string{"hear 16000", `client {"type":"input_audio_buffer.clear"}`}, "commit mine 16000 to 16100"},
	} {
		r := newTestEnv(t, manual)
		for _, line := range c.before {
			r.do(line)
		}
		r.do(audioItem("mine", 100))
		if !strings.Contains(r.lastLine(), c.want) {
			t.Errorf("%s: %s, not %s", name, r.lastLine(), c.want)
		}
	}
	r := newTestEnv(t, manual)
	r.do("hear 3000")
	r.do(`client {"type":"conversation.item.create","item":{"type":"message","role":"user","content":[{"type":"input_text","text":"x"}]}}`)
	if !strings.HasPrefix(r.lastLine(), "conversation.item.done") {
		t.Errorf("a text is refused: %s", r.lastLine())
	}
}

// While speech detection is on, items wait until the worker has processed nearly all audio. The
// rest of the audio is then sent again only once, after all these items.
func TestItemsWaitForTheWorker(t *testing.T) {
	t.Parallel()
	r := newTestEnv(t, "")
	r.do("hear 9000")
	for i := range 3 {
		r.do(audioItem(fmt.Sprint("i", i), 100))
	}
	if strings.Contains(strings.Join(r.lines, "\n"), "commit") {
		t.Fatal("the audio of items was sent before the worker has listened")
	}
	r.do("alive 5000 4000")
	if len(r.c.heldAudio) != 3 {
		t.Fatal("5 s would be repeated")
	}
	from := len(r.lines)
	r.do("alive 9000 7500")
	want := "audio 9000 to 9100\naudio 9100 to 9200\naudio 9200 to 9300\n" +
		"commit i0 9000 to 9100\ncommit i1 9100 to 9200\ncommit i2 9200 to 9300"
	var got []string
	var first, last int64
	for _, line := range r.lines[from:] {
		if _, err := fmt.Sscanf(line, "audio %d to %d", &first, &last); err == nil && first >= 9300 {
			continue
		}
		got = append(got, line)
	}
	if strings.Join(got, "\n") != want || last != 10_800 {
		t.Errorf("to %d ms:\n%s", last, strings.Join(r.lines[from:], "\n"))
	}
}

package browser

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"parley/scripts/internal/realtimeclient"
)

// forecast is the document from which the agent answers. It is one sentence, and speaking it takes
// half a minute.
const forecast = "The weather in London is mild and often cloudy, with rain in each month of the year and little snow, with fog along the river in autumn, " +
	"cold mornings and bright afternoons in spring, warm evenings in summer, and wind from the west on most days, which brings the clouds over the hills, " +
	"keeps the winters green, and makes people carry an umbrella wherever they go, even on days that begin without a cloud.\n"

// needsVoice skips a test if no speech program is installed.
func needsVoice(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("espeak-ng"); err != nil {
		t.Skipf("NOT TESTED: voice in a browser, because espeak-ng is missing (scripts/setup test installs it): %v", err)
	}
}

// recording creates a WAV file for a fake microphone: the given words, with silence before and
// after them.
func recording(t *testing.T, words string) (path string) {
	t.Helper()
	said, err := realtimeclient.Speech(t.Context(), "en-us+f5", words)
	if err != nil {
		t.Fatal(err)
	}

	// The connection opens during the first silence. The second silence ends the turn.
	before, behind := realtimeclient.Silence(8*time.Second), realtimeclient.Silence(time.Second)
	samples := slices.Concat(before, said, behind)
	const rate = realtimeclient.Rate
	head := []byte("RIFF....WAVEfmt ")
	head = binary.LittleEndian.AppendUint32(head, 16)
	head = append(head, 1, 0, 1, 0) // uncompressed samples, one channel
	head = binary.LittleEndian.AppendUint32(head, rate)
	head = binary.LittleEndian.AppendUint32(head, 2*rate)
	head = append(head, 2, 0, 16, 0)
	head = append(head, "data...."...)
	binary.LittleEndian.PutUint32(head[4:], uint32(len(head)-8+len(samples)))
	binary.LittleEndian.PutUint32(head[40:], uint32(len(samples)))
	path = filepath.Join(t.TempDir(), "microphone.wav")
	if err := os.WriteFile(path, append(head, samples...), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// openHearing opens a tab in a browser with fake microphones. Each time a page opens a microphone,
// the microphone plays the recording from the beginning.
func openHearing(t *testing.T, recording string) *page {
	t.Helper()
	s := withTestEnv(t)
	program, err := browserProgram()
	if err != nil {
		t.Fatal(err)
	}

	browser, end, err := launch(program, t.TempDir(),
		chromedp.Flag("use-fake-ui-for-media-stream", true), chromedp.Flag("use-fake-device-for-media-stream", true),
		chromedp.Flag("use-file-for-fake-audio-capture", recording+"%noloop"))
	if err != nil {
		t.Fatal(err)
	}

	t.Cleanup(end)
	return s.tab(t, chromium{browser})
}

// speaker creates an account and an agent that answers questions about the weather. Voice is
// enabled for the agent.
func speaker(t *testing.T) (a *account, agent string) {
	t.Helper()
	a = signUp(t)
	a.document(t, "weather.md", forecast)
	return a, a.agent(t, "Forecaster", map[string]any{"tools": map[string]any{"knowledge": on, "voice": on}})
}

// level returns a level meter's value from 0 to 100.
func (p *page) level(name string) int {
	p.t.Helper()
	var now string
	p.until("reading "+name, func() error {
		return p.in("meter", name).ask(&now, `function () { return this.getAttribute("aria-valuenow") }`)
	})
	level, err := strconv.Atoi(now)
	p.must(err, "reading "+name)
	return level
}

// loud waits until the level meter with the given name shows a level that noise does not reach.
func (p *page) loud(name string) {
	p.t.Helper()
	p.until(name+" shows something", func() error {
		if level := p.level(name); level < 20 {
			return fmt.Errorf("level of the meter = %d", level)
		}
		return nil
	})
}

// heardSeconds matches the text that shows for how long an answer was played, such as "2.5 s
// played".
var heardSeconds = regexp.MustCompile(`([0-9.]+) (m?s) played`)

// heard waits until the area shows that a turn's answer was played for at least the given number of
// seconds.
func (a area) heard(seconds float64) {
	a.p.t.Helper()
	a.p.until(fmt.Sprintf("%.1f s are played in %s", seconds, a), func() error {
		shown, err := a.text()
		if err != nil {
			return err
		}
		found := heardSeconds.FindStringSubmatch(shown)
		if found == nil {
			return errors.New("nothing is")
		}
		played, err := strconv.ParseFloat(found[1], 64)
		if found[2] == "ms" {
			played /= 1000
		}
		if err == nil && played <= seconds {
			err = fmt.Errorf("it is %s %s", found[1], found[2])
		}
		return err
	})
}

// spoke examines the WebSocket frames that the page has sent since the last call of spoke. It
// returns the loudest sample in frames with audio, the number of such frames, and the types of all
// other frames.
func (p *page) spoke() (limit, frames int, others []string) {
	p.t.Helper()
	for _, frame := range p.watch.sent() {
		var event struct {
			Type  string `json:"type"`
			Audio string `json:"audio"`
		}
		p.must(json.Unmarshal([]byte(frame), &event), "reading a frame")
		if event.Type != "input_audio_buffer.append" {
			others = append(others, event.Type)
			continue
		}
		frames++
		raw, err := base64.StdEncoding.DecodeString(event.Audio)
		p.must(err, "reading samples")
		limit = max(limit, loudest(raw))
	}
	return limit, frames, others
}

// TestSpeak asks an agent a question by voice, listens to the answer, and interrupts it by
// speaking. It then mutes the microphone, ends the call, and continues the session by text.
func TestSpeak(t *testing.T) {
	needsVoice(t)
	t.Parallel()
	a, agent := speaker(t)
	p := openHearing(t, recording(t, question)).signIn(a)
	end := p.begin(11)
	p.visit("/dashboard/agents/" + agent)
	p.click("button", "Speak")
	p.focusIs("button", "Mute")
	panel := p.in("region", "Speaking")
	panel.sees("Listening")
	p.loud("Microphone level")
	turn := p.first("article", "Message: Please tell me…")
	turn.sees(question)
	turn.sees("mild and often cloudy")
	p.loud("Agent level")
	turn.in("list", "").is("button", "Source 1: weather.md…")
	turn.heard(1)
	end()
	turn.sees("spoken after")
	panel.sees("Last answer started after")
	if limit, frames, _ := p.spoke(); limit < loudEnough || frames < 30 {
		t.Errorf("loudest sample in %d speech frames = %d", frames, limit)
	}
	p.inspect("speaking")

	// A second microphone plays the question again while the agent speaks, which interrupts the
	// answer.
	panel.choose("Microphone", "Fake Audio Input 1")
	turn.sees("Interrupted")
	p.until("the playback position is reported", func() error {
		_, _, others := p.spoke()
		if !strings.Contains(strings.Join(others, " "), "conversation.item.truncate") {
			return fmt.Errorf("sent frames = %q", others)
		}
		return nil
	})
	panel.sees("The agent is speaking")

	// Mute and stop with the keyboard.
	p.press("Shift+Tab", "Shift+Tab") // moves the focus back from the list of microphones
	p.focusIs("button", "Mute")
	p.press("m")
	panel.sees("You are muted.")
	silent := 0
	p.until("only silence is sent", func() error {
		limit, frames, _ := p.spoke()
		if silent += frames; limit > 0 {
			silent = 0
		}
		if silent < 20 {
			return fmt.Errorf("silent frames = %d, loudest sample = %d", silent, limit)
		}
		return nil
	})
	p.tabTo("button", "Stop the answer", 6)
	p.press("Enter")
	panel.isNot("button", "Stop the answer")
	p.focusIs("button", "Mute")
	p.press("m")
	panel.sees("You can speak.")
	p.tabTo("button", "End speaking", 3)
	p.press("Enter")
	p.focusIs("textbox", "Message")

	// Continue the session by text. After a reload, the page still shows the spoken turns.
	p.enter("What is 6 times 7?")
	p.press("Enter")
	p.in("article", "…6 times 7…").sees("42")
	p.reload()
	p.in("article", "…6 times 7…").sees("42")
	turn.sees(question)
	turn.sees("Interrupted")
	p.in("main", "").seesNot("Jump to the newest message") // a chat opens at its end
	p.inspect("spoken")
}

// TestSpeakEnd ends the call while the agent speaks. The session keeps only the part of the answer
// that was played.
func TestSpeakEnd(t *testing.T) {
	needsVoice(t)
	t.Parallel()
	a, agent := speaker(t)
	p := openHearing(t, recording(t, question)).signIn(a)
	p.resize(phone)
	p.visit("/dashboard/agents/" + agent)
	p.click("button", "Speak")
	panel := p.in("region", "Speaking")
	panel.sees("Listening")
	panel.is("button", "End speaking")
	turn := p.first("article", "Message: Please tell me…")
	turn.heard(8) // the service counts the played text in pieces of one or more sentences
	p.spoke()
	panel.click("button", "End speaking")
	p.focusIs("textbox", "Message")
	if _, _, others := p.spoke(); !slices.Contains(others, "conversation.item.truncate") {
		t.Errorf("sent frames = %q", others)
	}

	turn.sees("Interrupted")
	turn.sees("(Offline") // the offline model's answers begin like this
	turn.seesNot("carry an umbrella")

	// The page shows the interruption immediately, but the service stores it a moment later.
	eventually(t, "the service has stored the interruption", func() bool {
		var list struct {
			Data []struct {
				ID string `json:"id"`
			} `json:"data"`
		}
		a.call(t, http.MethodGet, "/api/sessions", nil, &list)
		var session struct {
			Messages []struct {
				Content     string `json:"content"`
				Interrupted bool   `json:"interrupted"`
			} `json:"messages"`
		}
		a.call(t, http.MethodGet, "/api/sessions?agentId="+agent+"&id="+list.Data[0].ID, nil, &session)
		return session.Messages[1].Interrupted && session.Messages[1].Content != "" // the page does not read the text again
	})
	p.reload()
	turn.sees("Interrupted")
	turn.sees("(Offline") // the offline model's answers begin like this
	turn.seesNot("carry an umbrella")
}

// TestSpeakNotEnabled clicks Speak on the page of an agent whose voice is off. The dialog that
// opens enables voice and starts a call.
func TestSpeakNotEnabled(t *testing.T) {
	t.Parallel()
	a := signUp(t)
	agent := a.agent(t, "Mute agent", nil)
	p := open(t).signIn(a)
	p.visit("/dashboard/agents/" + agent)
	p.click("button", "Speak: voice is off")
	dialog := p.in("dialog", "Switch on voice for “Mute agent”?")
	dialog.is("link", "Open tools")
	p.inspect("speak-enable")
	dialog.click("button", "Enable and speak")
	p.isNot("dialog", "Switch on voice for “Mute agent”?")
	p.in("region", "Speaking").is("alert", "") // this browser has no microphone
	p.is("button", "Continue by text")
	var now struct {
		Tools struct{ Voice struct{ Enabled bool } }
	}

	a.call(t, http.MethodGet, "/api/agents?id="+agent, nil, &now)
	if !now.Tools.Voice.Enabled {
		t.Error("the agent's voice is not enabled")
	}
}

// TestSpeakNoMicrophone starts a call in a browser without a microphone. The page explains the
// problem and offers to continue by text.
func TestSpeakNoMicrophone(t *testing.T) {
	t.Parallel()
	a := signUp(t)
	agent := a.agent(t, "Unheard", map[string]any{"tools": map[string]any{"voice": on}})
	p := open(t).signIn(a)
	p.visit("/dashboard/agents/" + agent)
	p.click("button", "Speak")
	panel := p.in("region", "Speaking")
	panel.is("button", "Try again")
	panel.is("alert", "")
	p.inspect("speak-none")
	panel.click("button", "Continue by text")
	p.focusIs("textbox", "Message")
}

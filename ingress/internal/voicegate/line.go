package voicegate

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"slices"
	"time"

	"parley/ingress/internal/realtime"
	"parley/shared/bus"
	"parley/shared/contract"
)

const (
	maxLosses = 5 // in lossesIn: then it is not the workers
	lossesIn  = 30 * time.Second

	// What the worker may not have listened to yet of what it was sent: a line is lost when more waits for its reader than that. After
	// a loss minutes of audio may have to be sent again, and clients may send it in the smallest pieces.
	aheadFrames  = 500
	aheadSamples = 20 * contract.VoiceRate

	queueKept = 64 // steps that an empty queue has room for
)

// opening is what came of an attempt to open a line.
type opening struct {
	line *bus.VoiceLine
	err  error
}

// line is a connection's line to a voice worker, now this one's and now that one's. The owner's alone.
type line struct {
	lines  Lines
	signer Signer
	org    string
	name   string // the same for all workers, so that one who had it before gives it up
	opened chan opening
	stop   context.CancelFunc // of an opening that is under way; else nil

	at     *bus.VoiceLine // nil: there is none at the moment
	frames <-chan contract.VoiceFrame[contract.VoiceReport]
	queue  []step  // for the worker, once there is one that listens
	ahead  []int64 // where the frames end that were sent, and to which it has not listened
	heard  int64   // up to which it has
	losses []time.Time
}

// step is something for the worker.
type step struct {
	audio   contract.VoiceAudio
	command *contract.VoiceCommand
}

func newLine(lines Lines, signer Signer, org string) *line {
	return &line{lines: lines, signer: signer, org: org, name: rand.Text(), opened: make(chan opening, 1)}
}

// open begins to open the line from where the conversation stands. What is sent from now on follows.
func (l *line) open(ctx context.Context, from realtime.Resumption, within time.Duration) error {
	from.Open.Line, from.Open.OrganizationID = l.name, l.org
	body, err := json.Marshal(from.Open)
	if err != nil {
		return err
	}
	claims, err := json.Marshal(contract.VoiceClaims{
		OrganizationID: l.org, Kind: contract.KindVoice, Line: l.name, Expires: time.Now().Add(within).UTC(),
	})
	if err != nil {
		return err
	}
	l.queue, l.ahead, l.heard = nil, nil, from.Open.Position
	ctx, l.stop = context.WithTimeout(ctx, within)
	go func() {
		at, err := l.lines.Open(ctx, l.signer.Sign(claims, body), body)
		l.opened <- opening{at, err}
	}()
	l.send(from.Audio, from.Commands)
	return nil
}

// failed notes that the line could not be opened.
func (l *line) failed() {
	l.stop()
	l.stop = nil
}

// up takes the line that was opened, and sends what its worker must know.
func (l *line) up(came opening) {
	l.stop()
	l.stop = nil
	l.at, l.frames = came.line, came.line.Frames()
	l.pump()
}

// send gives the worker audio and commands, or keeps them for it, or for the next one.
func (l *line) send(audio []contract.VoiceAudio, commands []contract.VoiceCommand) {
	if l.at == nil && l.stop == nil {
		return // the next opening covers it
	}
	for _, a := range audio {
		l.queue = append(l.queue, step{audio: a})
	}
	for i := range commands {
		l.queue = append(l.queue, step{command: &commands[i]})
	}
	l.pump()
}

// listened notes up to which sample the worker has listened: more may be sent.
func (l *line) listened(heard int64) {
	l.heard = max(l.heard, heard)
	n := 0
	for n < len(l.ahead) && l.ahead[n] <= l.heard {
		n++
	}
	l.ahead = l.ahead[n:]
	l.pump()
}

// pump sends what may be sent. When that fails the line is lost, and its frames end.
func (l *line) pump() {
	n := 0
	for l.at != nil && n < len(l.queue) && !l.full() {
		s := l.queue[n]
		n++
		if s.command != nil {
			_ = l.at.Send(*s.command)
			continue
		}
		l.ahead = append(l.ahead, s.audio.At+int64(len(s.audio.PCM)/2))
		_ = l.at.Audio(s.audio.At, s.audio.PCM)
	}
	if l.queue = slices.Delete(l.queue, 0, n); len(l.queue) == 0 && cap(l.queue) > queueKept {
		l.queue = nil
	}
}

func (l *line) full() bool {
	n := len(l.ahead)
	return n >= aheadFrames || n > 0 && l.ahead[n-1]-l.heard >= aheadSamples
}

// leave gives the line up.
func (l *line) leave() {
	if l.at != nil {
		l.at.Close()
	}
	l.at, l.frames = nil, nil
}

// tooOften counts a line that was lost, and reports whether it is in vain to open it again.
func (l *line) tooOften(now time.Time) bool {
	l.losses = append(l.losses, now)
	if len(l.losses) > maxLosses {
		l.losses = l.losses[1:]
	}
	return len(l.losses) == maxLosses && now.Sub(l.losses[0]) < lossesIn
}

// close leaves the line for good.
func (l *line) close() {
	l.leave()
	if l.stop == nil {
		return
	}
	l.stop()
	if came := <-l.opened; came.line != nil {
		came.line.Close()
	}
}

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
	maxLosses = 5 // maximum number of losses within lossesIn; after more losses, the workers are probably not the cause
	lossesIn  = 30 * time.Second

	// Limits of the data sent that the worker may not have processed yet. If more data waits at the
	// worker's end, the session is lost. After a loss, minutes of audio may have to be sent again,
	// possibly in the smallest pieces that clients can send.
	aheadFrames  = 500
	aheadSamples = 20 * contract.VoiceRate

	queueKept = 64 // capacity that an empty queue keeps
)

// opening is the result of an attempt to open a session.
type opening struct {
	line *bus.VoiceLine
	err  error
}

// line is a connection's voice session, with one worker after another. Only the connection's owner goroutine uses it.
type line struct {
	lines  Lines
	signer Signer
	org    string
	name   string // name of the session, the same for all workers: the previous worker ends its session when another takes over
	opened chan opening
	stop   context.CancelFunc // cancels the opening in progress; nil if there is none

	at     *bus.VoiceLine // nil: no session at the moment
	frames <-chan contract.VoiceFrame[contract.VoiceReport]
	queue  []step  // for the worker, once it has capacity
	ahead  []int64 // for each frame that was sent but not processed by the worker, the position of its end
	heard  int64   // samples that it has processed
	losses []time.Time
}

// step is audio or a command for the worker.
type step struct {
	audio   contract.VoiceAudio
	command *contract.VoiceCommand
}

// newLine returns a line without a session. open must be called before anything is sent.
func newLine(lines Lines, signer Signer, org string) *line {
	return &line{lines: lines, signer: signer, org: org, name: rand.Text(), opened: make(chan opening, 1)}
}

// open starts to open a session in the conversation's current state. Audio and commands sent from
// now on follow this state.
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

	// The new session begins with the conversation's current state, so data for the previous session is obsolete.
	l.queue, l.ahead, l.heard = nil, nil, from.Open.Position
	ctx, l.stop = context.WithTimeout(ctx, within)
	go func() {
		at, err := l.lines.Open(ctx, l.signer.Sign(claims, body), body)
		l.opened <- opening{at, err}
	}()
	l.send(from.Audio, from.Commands)
	return nil
}

// failed records that the session could not be opened.
func (l *line) failed() {
	l.stop()
	l.stop = nil
}

// up starts to use an opened session, and sends its initial audio and commands.
func (l *line) up(came opening) {
	l.stop()
	l.stop = nil
	l.at, l.frames = came.line, came.line.Frames()
	l.pump()
}

// send sends audio and commands to the worker, or queues them for this worker or the next.
func (l *line) send(audio []contract.VoiceAudio, commands []contract.VoiceCommand) {
	if l.at == nil && l.stop == nil {
		return // the next opening includes it
	}
	for _, a := range audio {
		l.queue = append(l.queue, step{audio: a})
	}
	for i := range commands {
		l.queue = append(l.queue, step{command: &commands[i]})
	}
	l.pump()
}

// listened records how far the worker has processed the audio, so that more may be sent.
func (l *line) listened(heard int64) {
	l.heard = max(l.heard, heard)

	// Frames are processed in order, so the processed ones are at the beginning.
	n := 0
	for n < len(l.ahead) && l.ahead[n] <= l.heard {
		n++
	}
	l.ahead = l.ahead[n:]
	l.pump()
}

// pump sends as much of the queue as the limits allow. If sending fails, the session is lost and its channel of frames is closed.
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

// full reports whether the worker must process some audio before more is sent.
func (l *line) full() bool {
	n := len(l.ahead)
	return n >= aheadFrames || n > 0 && l.ahead[n-1]-l.heard >= aheadSamples
}

// leave ends the session.
func (l *line) leave() {
	if l.at != nil {
		l.at.Close()
	}
	l.at, l.frames = nil, nil
}

// tooOften counts a lost session, and reports whether so many were lost that opening another one is futile.
func (l *line) tooOften(now time.Time) bool {
	l.losses = append(l.losses, now)
	if len(l.losses) > maxLosses {
		l.losses = l.losses[1:]
	}
	return len(l.losses) == maxLosses && now.Sub(l.losses[0]) < lossesIn
}

// close ends the session for good.
func (l *line) close() {
	l.leave()
	if l.stop == nil {
		return
	}
	l.stop()

	// The opening in progress is cancelled, but may have succeeded just before.
	if came := <-l.opened; came.line != nil {
		came.line.Close()
	}
}

package pocketsphinx

import (
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"parley/workers/internal/speech/process"
)

// listener is a process that waits for an utterance. It has loaded the model or is still loading
// it.
type listener struct {
	*process.Process
	sound *os.File // file from which the process will read the utterance
}

func (l *listener) end() {
	l.Kill()
	_ = l.sound.Close()
}

// start starts a listener. The process waits until transcribe writes the list of utterances to the
// standard input. The process reads the utterance itself from descriptor 3.
func (t *Transcriber) start() (*listener, error) {
	sound, err := newMemory()
	if err != nil {
		return nil, err
	}
	p, err := process.Start(process.Command{
		Path: t.path, Files: []*os.File{sound}, Max: maximum, CPU: cpu, Bytes: memory,
		Args: []string{
			"-hmm", filepath.Join(t.model, "en-us"), "-lm", filepath.Join(t.model, "en-us.lm.bin"),
			"-dict", filepath.Join(t.model, "cmudict-en-us.dict"),
			"-adcin", "yes", "-samprate", "16000", "-cmn", "batch", // batch: computes the level from this utterance alone
			"-cepdir", "/dev/fd", "-cepext", "", "-ctl", "/dev/stdin", "-hyp", "/dev/stdout", "-logfn", "/dev/null",
		},
	})
	if err != nil {
		_ = sound.Close()
		return nil, err
	}
	return &listener{p, sound}, nil
}

// spares contains the listeners that are not in use.
type spares struct {
	mu     sync.Mutex
	ready  []*listener
	coming int
	closed bool
	work   sync.WaitGroup
}

// Prepare starts a process for a future utterance, unless a process is already waiting or starting.
func (t *Transcriber) Prepare() { t.spare(1) }

// spare starts a listener if fewer listeners than wanted are waiting or starting.
func (t *Transcriber) spare(want int) {
	s := &t.spares
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ready = slices.DeleteFunc(s.ready, func(l *listener) bool {
		if !ended(l) {
			return false
		}
		_ = l.sound.Close()
		return true
	})

	if s.closed || len(s.ready)+s.coming >= want {
		return
	}

	s.coming++
	s.work.Go(func() {
		l, err := t.start()
		s.mu.Lock()
		defer s.mu.Unlock()
		s.coming--
		switch {
		case err != nil: // the error is ignored, because the next call starts a listener itself and returns the error
		case s.closed:
			s.work.Go(l.end)
		default:
			s.ready = append(s.ready, l)
			time.AfterFunc(idle, func() { t.dismiss(l) })
		}
	})
}

// dismiss ends a listener that has been waiting for the duration idle.
func (t *Transcriber) dismiss(l *listener) {
	t.spares.mu.Lock()
	n := slices.Index(t.spares.ready, l)
	if n >= 0 {
		t.spares.ready = slices.Delete(t.spares.ready, n, n+1)
	}
	t.spares.mu.Unlock()
	if n >= 0 {
		l.end()
	}
}

// take returns a listener for exclusive use. It starts one if none is waiting.
func (t *Transcriber) take() (*listener, error) {
	t.spares.mu.Lock()
	for len(t.spares.ready) > 0 {
		l := t.spares.ready[0]
		t.spares.ready = t.spares.ready[1:]
		if !ended(l) {
			t.spares.mu.Unlock()
			return l, nil
		}
		_ = l.sound.Close()
	}
	t.spares.mu.Unlock()
	return t.start()
}

func ended(l *listener) bool {
	select {
	case <-l.Ended():
		return true
	default:
		return false
	}
}

// Close ends the waiting processes. No call of Transcribe may be in progress.
func (t *Transcriber) Close() {
	s := &t.spares
	s.mu.Lock()
	s.closed = true
	waiting := s.ready
	s.ready = nil
	s.mu.Unlock()
	for _, l := range waiting {
		l.end()
	}
	s.work.Wait()
}

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
// it. It transcribes one utterance and then exits.
type listener struct {
	*process.Process
	sound *os.File // file from which the process will read the utterance
}

// end kills the process and frees the audio. It may be called after the process has exited.
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
			"-adcin", "yes", "-samprate", "16000", "-cmn", "batch", // -cmn batch: normalize with the mean of the whole utterance
			"-cepdir", "/dev/fd", "-cepext", "", "-ctl", "/dev/stdin", "-hyp", "/dev/stdout", "-logfn", "/dev/null",
		},
	})
	if err != nil {
		_ = sound.Close()
		return nil, err
	}
	return &listener{p, sound}, nil
}

// spares contains the listeners that are not in use. Idle listeners end after the duration idle.
type spares struct {
	mu sync.Mutex
	// ready contains the waiting listeners, oldest first. coming is the number of listeners that
	// are being started.
	ready  []*listener
	coming int
	// closed is true after Close. Listeners that start later are ended immediately.
	closed bool
	// work counts the goroutines that start or end listeners.
	work sync.WaitGroup
}

// Prepare starts a process for a future utterance, unless a process is already waiting or starting.
func (t *Transcriber) Prepare() { t.spare(1) }

// spare starts a listener in the background if fewer listeners than wanted are waiting or starting.
// It first removes listeners that have exited by themselves.
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

// dismiss ends a listener that has been waiting for the duration idle. It does nothing if the
// listener is in use.
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

// take returns a listener for exclusive use. If no listener is waiting, take starts a listener. The
// caller must call the listener's method end.
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

// ended reports whether the process of a listener has exited.
func ended(l *listener) bool {
	select {
	case <-l.Ended():
		return true
	default:
		return false
	}
}

// Close ends the waiting processes. No call of Transcribe may be in progress. Close also ends
// processes that are just starting, and waits for their end.
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

package voice

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os/exec"
	"runtime/debug"
	"syscall"
	"time"

	"parley/shared/contract"
	"parley/workers/internal/speech"
)

const (
	callTries  = 2
	retryAfter = 250 * time.Millisecond
)

var errPanic = errors.New("the backend panicked")

// Messages for callers where a backend gave none.
var unsaid = map[string]string{
	speech.CodeTranscription: "The speech could not be transcribed.",
	speech.CodeSpeech:        "Speech synthesis of the answer failed.",
}

// contain makes a panic of a backend an error: other lines are in the same process.
func (l *line) contain(err *error) {
	if cause := recover(); cause != nil {
		// The cause may quote what was said; the stack says where.
		l.log.Error().Str("panic", fmt.Sprintf("%T", cause)).Bytes("stack", debug.Stack()).Msg("speech backend panicked")
		*err = errPanic
	}
}

// again tells whether a call that was made so often, with a voice and in a language, is to be made again, and when. What the
// backend does not have is given up first, and told: the line goes on without.
func (l *line) again(err error, tries int, voice, language string) (again bool, after time.Duration) {
	var coded *speech.Error
	switch {
	case errors.Is(err, speech.ErrUnknownVoice) && voice != "":
		l.giveUp("voice", &l.config.Voice, voice, err)
		return true, 0
	case errors.Is(err, speech.ErrUnknownLanguage) && language != "":
		l.giveUp("language", &l.config.Language, language, err)
		return true, 0
	case errors.As(err, &coded) && coded.Retryable && tries < callTries:
		return true, retryAfter
	}
	return false, 0
}

// giveUp takes a setting back, unless that was done or it is another one by now.
func (l *line) giveUp(param string, setting *string, value string, err error) {
	if *setting != value {
		return
	}
	*setting = ""
	failure := l.failure(err, "unknown_"+param)
	failure.Param = param
	l.report(contract.VoiceReport{Type: contract.VoiceFailed, Failure: failure})
}

// failure gives what callers are told of an error, and logs the rest.
func (l *line) failure(err error, code string) *contract.VoiceFailure {
	l.log.Warn().Err(err).AnErr("cause", cause(err)).Str("code", code).Msg("speech failed")
	if coded, ok := errors.AsType[*speech.Error](err); ok {
		return &contract.VoiceFailure{Code: coded.Code, Message: coded.Message}
	}
	message := unsaid[code]
	if errors.Is(err, context.DeadlineExceeded) {
		message += " It took too long."
	}
	return &contract.VoiceFailure{Code: code, Message: message}
}

// cause gives of what is behind an error the part that cannot hold what was said: how the network, a process or a file failed.
// What servers answer and programs complain of may quote it.
func cause(err error) error {
	if of, is := errors.AsType[*net.OpError](err); is {
		return of
	}
	if of, is := errors.AsType[*tls.CertificateVerificationError](err); is {
		return of
	}
	if of, is := errors.AsType[*exec.ExitError](err); is {
		return errors.New(of.ProcessState.String())
	}
	if of, is := errors.AsType[*fs.PathError](err); is {
		return of
	}
	if of, is := errors.AsType[syscall.Errno](err); is {
		return of
	}
	return nil
}

// pause waits, for as long as ctx lasts.
func pause(ctx context.Context, d time.Duration) error {
	if d == 0 {
		return nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

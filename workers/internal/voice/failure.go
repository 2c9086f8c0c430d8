package voice

import (
	"context"
	"crypto/tls"
	"errors"
	"io/fs"
	"net"
	"os/exec"
	"syscall"
	"time"

	"parley/shared/contract"
	"parley/workers/internal/speech"
)

// A failed call is retried only once and after a short delay, because the caller is waiting.
const (
	callTries  = 2
	retryAfter = 250 * time.Millisecond
)

// defaultMessages contains the messages for failures for which the backend supplies none, by error
// code.
var defaultMessages = map[string]string{
	speech.CodeTranscription: "The speech could not be transcribed.",
	speech.CodeSpeech:        "Speech synthesis of the answer failed.",
}

// shouldRetry reports whether a failed call is retried, and after which delay. tries is the number
// of calls made so far, and voice and language are the settings of the failed call. If the backend
// does not support the voice or the language, the session resets that setting, reports this, and
// retries. err may be nil.
func (l *session) shouldRetry(err error, tries int, voice, language string) (again bool, after time.Duration) {
	var coded *speech.Error
	switch {
	case errors.Is(err, speech.ErrUnknownVoice) && voice != "":
		l.dropSetting("voice", &l.config.Voice, voice, err)
		return true, 0
	case errors.Is(err, speech.ErrUnknownLanguage) && language != "":
		l.dropSetting("language", &l.config.Language, language, err)
		return true, 0
	case errors.As(err, &coded) && coded.Retryable && tries < callTries:
		return true, retryAfter
	}
	return false, 0
}

// dropSetting resets a setting to its default and reports the failure. If the setting has changed
// since the call began, dropSetting does nothing.
func (l *session) dropSetting(param string, setting *string, value string, err error) {
	if *setting != value {
		return
	}
	*setting = ""
	failure := l.failure(err, "unknown_"+param)
	failure.Param = param
	l.report(contract.VoiceReport{Type: contract.VoiceFailed, Failure: failure})
}

// failure logs an error and returns the code and the message that callers may see.
func (l *session) failure(err error, code string) *contract.VoiceFailure {
	l.log.Warn().Err(err).AnErr("cause", cause(err)).Str("code", code).Msg("speech failed")
	if coded, ok := errors.AsType[*speech.Error](err); ok {
		return &contract.VoiceFailure{Code: coded.Code, Message: coded.Message}
	}

	// An error of unknown origin may quote speech, so callers receive a fixed message.
	message := defaultMessages[code]
	if errors.Is(err, context.DeadlineExceeded) {
		message += " The speech backend took too long."
	}
	return &contract.VoiceFailure{Code: code, Message: message}
}

// cause returns the part of an error that may be logged: a failure of the network, a process or a
// file. Other parts, such as responses of servers and output of programs, may quote speech.
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

package embedded

import (
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/rs/zerolog"
)

// logger forwards the server's log and keeps its first fatal message. nats-server's own logger
// would end the process on a fatal message; with this logger the process continues.
type logger struct {
	log   zerolog.Logger
	fatal atomic.Pointer[string]
}

// failure returns the first fatal message as an error, or nil.
func (l *logger) failure() error {
	if text := l.fatal.Load(); text != nil {
		return errors.New(*text)
	}
	return nil
}

// Noticef logs at debug. Notices are starts, stops and listening addresses, which the
// caller logs too.
func (l *logger) Noticef(format string, values ...any) {
	l.log.Debug().Str("server", "nats").Msgf(format, values...)
}

// Warnf logs at warn.
func (l *logger) Warnf(format string, values ...any) {
	l.log.Warn().Str("server", "nats").Msgf(format, values...)
}

// Errorf logs at warn, because the server keeps running.
func (l *logger) Errorf(format string, values ...any) { l.Warnf(format, values...) }

// Fatalf keeps the first fatal message for Start and logs all later messages.
func (l *logger) Fatalf(format string, values ...any) {
	text := fmt.Sprintf(format, values...)
	if !l.fatal.CompareAndSwap(nil, &text) {
		l.log.Error().Str("server", "nats").Msg(text)
	}
}

// Debugf is not called, because debugging is off.
func (l *logger) Debugf(format string, values ...any) { l.Noticef(format, values...) }

// Tracef is not called, because tracing is off.
func (l *logger) Tracef(string, ...any) {}

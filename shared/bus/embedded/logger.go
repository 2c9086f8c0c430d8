package embedded

import (
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/rs/zerolog"
)

// logger hands the server's log on and keeps the first thing it called fatal: after that
// nats-server's own logger would exit the process, and the server does not look any further.
type logger struct {
	log   zerolog.Logger
	fatal atomic.Pointer[string]
}

// failure is what the server called fatal, or nil.
func (l *logger) failure() error {
	if text := l.fatal.Load(); text != nil {
		return errors.New(*text)
	}
	return nil
}

// Noticef logs at debug: starts, stops and listening addresses, which the caller says better.
func (l *logger) Noticef(format string, values ...any) {
	l.log.Debug().Str("server", "nats").Msgf(format, values...)
}

// Warnf logs at warn.
func (l *logger) Warnf(format string, values ...any) {
	l.log.Warn().Str("server", "nats").Msgf(format, values...)
}

// Errorf logs at warn: the server goes on.
func (l *logger) Errorf(format string, values ...any) { l.Warnf(format, values...) }

// Fatalf keeps the first text for Start, and logs the others.
func (l *logger) Fatalf(format string, values ...any) {
	text := fmt.Sprintf(format, values...)
	if !l.fatal.CompareAndSwap(nil, &text) {
		l.log.Error().Str("server", "nats").Msg(text)
	}
}

// Debugf is not called: the server is told not to.
func (l *logger) Debugf(format string, values ...any) { l.Noticef(format, values...) }

// Tracef is not called, for messages are nobody's business here.
func (l *logger) Tracef(string, ...any) {}

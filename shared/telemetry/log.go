// Package telemetry creates a process's logger and registers metrics. Its subpackages create
// traces, the registry of metrics, and the HTTP server of processes that serve no API.
package telemetry

import (
	"os"
	"time"

	"github.com/rs/zerolog"

	"parley/shared/config"
)

// Logger creates the configured logger on standard error. service is the name of the process and
// part of each line. Logger also sets the format of times for the whole process.
func Logger(cfg config.Logging, service string) zerolog.Logger {
	level, err := zerolog.ParseLevel(cfg.LogLevel)
	if err != nil {
		level = zerolog.InfoLevel // not reached for configured levels, which kong has validated
	}
	zerolog.TimeFieldFormat = "2006-01-02T15:04:05.000Z07:00"

	// Logs for people are short and colored; logs for programs are JSON.
	log := zerolog.New(os.Stderr)
	if cfg.LogFormat == "console" || cfg.LogFormat == "" && isTerminal(os.Stderr) {
		log = log.Output(zerolog.ConsoleWriter{Out: os.Stderr, TimeFormat: time.TimeOnly})
	}
	return log.Level(level).With().Timestamp().Str("service", service).Logger()
}

// WarnOfRemovedSettings logs a warning for each setting of an earlier release that has a value in
// the environment of this process, so that the operator learns that it has no effect.
func WarnOfRemovedSettings(log zerolog.Logger) {
	for _, setting := range config.Removed(os.Environ()) {
		log.Warn().Str("setting", setting.Name).Str("now", setting.Now).
			Msg("this setting was removed and has no effect: see docs/upgrade.md")
	}
}

// isTerminal reports whether a file is a terminal.
func isTerminal(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"

	"parley/scripts/bench/internal/parley"
	"parley/scripts/bench/internal/report"
	speech "parley/scripts/bench/internal/voice"
)

// voiceFlags say how conversations are measured.
type voiceFlags struct {
	VoiceTurns         int     `name:"voice-turns" default:"200" help:"Spoken turns, one after the other."`
	VoiceInterruptions int     `name:"voice-interruptions" default:"50" help:"Answers that are interrupted."`
	VoiceSessions      int     `name:"voice-sessions" default:"100" help:"Conversations at a time."`
	VoiceSeconds       float64 `name:"voice-seconds" default:"120" help:"Time that they last."`
}

func (v *voiceFlags) check() error {
	if v.VoiceTurns < 1 || v.VoiceInterruptions < 1 || v.VoiceSessions < 1 || v.VoiceSeconds <= 0 {
		return errors.New("--voice-turns, --voice-interruptions, --voice-sessions and --voice-seconds must be above zero")
	}
	return nil
}

func (v *voiceFlags) measure(ctx context.Context, o *options, r *report.Report) error {
	return o.alone(ctx, "voice", r, func(on stage) error { return v.measureOn(ctx, on, r) })
}

func (v *voiceFlags) measureOn(ctx context.Context, on stage, r *report.Report) error {
	measured, err := speech.Run(ctx, speech.Config{
		Turns: v.VoiceTurns, Interruptions: v.VoiceInterruptions, Sessions: v.VoiceSessions, Duration: seconds(v.VoiceSeconds), Progress: sayf,
		Start: func(ctx context.Context, name string, settings map[string]string) (*parley.Parley, error) {
			dsn, err := on.servers.Database(ctx, name)
			if err != nil {
				return nil, err
			}
			most := strconv.Itoa(v.VoiceSessions + 1)
			all := map[string]string{"VOICE_PER_ORGANIZATION": most, "VOICE_CONCURRENCY": most}
			maps.Copy(all, settings)
			return parley.Start(ctx, parley.Config{
				Binaries: on.binaries, DatabaseURL: dsn, NATSURL: on.servers.NATSURL(), LogsDir: on.dir, ProfilesDir: on.profiles,
				Model: "openai/bench", Roles: "agent,tool,voice,sweep", Tools: map[string]any{"voice": map[string]any{"enabled": true}}, Settings: all,
			})
		},
	})
	if errors.Is(err, speech.ErrNoSpeech) {
		sayf("voice is not measured: %v", err)
		return nil
	}
	if err != nil {
		return errors.Join(fmt.Errorf("voice: %w", err), on.servers.Err())
	}
	r.AddVoice(measured)
	return nil
}

// voice measures conversations alone.
type voice struct {
	options
	voiceFlags
}

// Validate is called by kong.
func (v *voice) Validate() error { return errors.Join(v.options.check(), v.voiceFlags.check()) }

// Run measures and writes the report.
func (v *voice) Run(ctx context.Context) error { return v.options.run(ctx, &v.voiceFlags) }

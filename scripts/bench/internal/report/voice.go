package report

import (
	"fmt"
	"strings"
)

// VoiceMemory is what a process has filled, once everybody speaks and at the end, in bytes: the most in a quarter of the time.
type VoiceMemory struct {
	Process string `json:"process"`
	Early   int64  `json:"early"`
	Late    int64  `json:"late"`
}

// Voice is what conversations cost when who hears, thinks and speaks takes a fixed time each.
type Voice struct {
	Turns          int     `json:"turns"`
	ProviderMillis float64 `json:"providerMs"` // that each of the three takes
	Added          Took    `json:"added"`      // to those, from the end of the speech to the first sound of the answer
	Behind         Took    `json:"behind"`     // the same, to what of those came behind the end of the speech
	Floor          Took    `json:"floor"`      // the same, of the three calls alone, made one behind the other by a plain client

	Interruptions int  `json:"interruptions"`
	Stopped       Took `json:"stopped"` // from the word that speech was heard to the last sound

	Sessions  int           `json:"sessions"`
	Seconds   float64       `json:"seconds"`
	Answers   int           `json:"answers"`
	Underruns int           `json:"underruns"` // answers in which a player had nothing to play for a moment
	Memory    []VoiceMemory `json:"memory"`
}

// Compare takes the quantiles.
func (v *Voice) Compare() {
	v.Added.Compare()
	v.Behind.Compare()
	v.Floor.Compare()
	v.Stopped.Compare()
}

// voiceGrowth is how much a process may grow that does not grow: its heap is as large as the last collection left it.
const voiceGrowth = 1.15

func (v *Voice) goals() []Goal {
	out := []Goal{
		{Clients: 1, Measure: "voice, ms added to the first sound, p99", Value: v.Added.P99, Limit: 20},
		{Clients: 1, Measure: "voice, ms from an interruption to the last sound, p99", Value: v.Stopped.P99, Limit: 30},
		{Clients: v.Sessions, Measure: "voice, answers with an underrun", Value: float64(v.Underruns), Limit: 0},
	}
	for _, m := range v.Memory {
		out = append(out, Goal{
			Clients: v.Sessions, Measure: "voice, memory of " + m.Process + ", late / early",
			Value: ratio(float64(m.Late), float64(m.Early)), Limit: voiceGrowth,
		})
	}
	return out
}

func (v *Voice) write(b *strings.Builder) {
	fmt.Fprintf(b, "Voice: hearing, thinking and speaking are stubs that take %g ms each\n\n", v.ProviderMillis)
	out := grid{{"measure", "n", "p50 ms", "p99 ms", "max ms"}}
	for _, row := range []struct {
		name string
		n    int
		side Took
	}{
		{"end of speech to first sound, without the stubs", v.Turns, v.Added},
		{"the same, without what the stubs took behind that end", v.Turns, v.Behind},
		{"the three calls of a turn alone, without the stubs", v.Turns, v.Floor},
		{"interruption to last sound", v.Interruptions, v.Stopped},
	} {
		out = append(out, []string{
			row.name, fmt.Sprint(row.n), fmt.Sprintf("%.2f", row.side.P50), fmt.Sprintf("%.2f", row.side.P99), fmt.Sprintf("%.2f", row.side.Max),
		})
	}
	out.write(b)
	fmt.Fprintf(b, "\n%d conversations at the pace of speech for %g s: %d answers, %d of them with an underrun\n",
		v.Sessions, v.Seconds, v.Answers, v.Underruns)
	for _, m := range v.Memory {
		fmt.Fprintf(b, "  %s: %.1f MiB filled early, %.1f MiB late\n", m.Process, float64(m.Early)/(1<<20), float64(m.Late)/(1<<20))
	}
}

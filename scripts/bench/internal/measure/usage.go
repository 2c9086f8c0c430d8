package measure

import (
	"errors"
	"maps"
	"runtime"
	"time"

	"parley/scripts/bench/internal/machine"
)

// usage is the CPU time taken until a moment; nothing is known on systems that do not tell.
type usage struct {
	known bool
	at    time.Time
	by    map[string]time.Duration // the servers' and the side's processes, by name
	all   time.Duration            // the whole machine
}

func (m *measurer) usage(side Side) (usage, error) {
	all, err := machine.Busy()
	if errors.Is(err, machine.ErrNoProc) {
		return usage{}, nil
	}
	if err != nil {
		return usage{}, err
	}
	u := usage{known: true, at: time.Now(), all: all}
	if u.by, err = m.servers.CPU(); err != nil {
		return usage{}, err
	}
	own, err := side.Processes.CPU()
	if err != nil {
		return usage{}, errors.Join(err, side.Processes.Err())
	}
	maps.Copy(u.by, own)
	return u, nil
}

// until is what was taken between two moments: microseconds a run by process, the client's too, and the share of the
// machine that others had.
func (u usage) until(end usage, client time.Duration, runs int64) (perRun map[string]float64, others float64) {
	if !u.known || !end.known || runs == 0 {
		return nil, 0
	}
	micros := func(d time.Duration) float64 { return d.Seconds() * 1e6 / float64(runs) }
	perRun = map[string]float64{"client": micros(client)}
	left := end.all - u.all - client
	for name, used := range end.by {
		perRun[name] = micros(used - u.by[name])
		left -= used - u.by[name]
	}
	whole := end.at.Sub(u.at) * time.Duration(runtime.NumCPU())
	return perRun, max(0, left.Seconds()/whole.Seconds())
}

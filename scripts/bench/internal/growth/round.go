package growth

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"time"

	"parley/scripts/bench/internal/load"
	"parley/scripts/bench/internal/machine"
	"parley/scripts/bench/internal/report"
)

// round is one measurement of one side.
type round struct {
	report.Round
	cpu     float64 // µs each of the side's processes, PostgreSQL and the nats-servers
	logged  float64 // bytes of PostgreSQL's log each
	claimed float64 // ms until a worker had it, the mean; 0 of replays
}

// round has so many clients ask one side. An answer that is not as it should be is an error.
func (m *measurer) round(ctx context.Context, s *side, spec load.Spec, clients int) (out round, err error) {
	spec.Clients, spec.WarmUp, spec.Duration = clients, m.config.WarmUp, m.config.Duration
	if spec.Keys == 0 {
		spec.Nonce = rand.Text()[:10]
	}
	last, err := s.db.last(ctx)
	if err != nil {
		return out, err
	}
	start, err := m.spent(ctx, s)
	if err != nil {
		return out, err
	}
	result, client, err := load.Client(ctx, spec, m.config.Command, "client")
	if err == nil {
		err = result.Failures()
	}
	if err == nil && result.Latencies.Count() == 0 {
		err = errors.New("nothing was answered")
	}
	if err != nil {
		return out, errors.Join(fmt.Errorf("%s with %d clients: %w", s.name, clients, err), s.parley.Err(), m.config.Servers.Err())
	}
	end, err := m.spent(ctx, s)
	if err != nil {
		return out, err
	}
	out.Round = report.Round{
		Runs: result.Latencies.Count(), RunsPerSecond: result.PerSecond(), Others: start.others(end, client),
		P50: millis(result.Latencies.Quantile(0.5)), P99: millis(result.Latencies.Quantile(0.99)),
		Mean: millis(result.Latencies.Mean()), Max: millis(result.Latencies.Max()),
	}
	m.others = max(m.others, out.Others)
	out.cpu = (end.cpu - start.cpu).Seconds() * 1e6 / float64(result.Answered)
	out.logged = float64(end.logged-start.logged) / float64(result.Answered)
	out.claimed, err = s.db.claimed(ctx, last)
	return out, err
}

// spent is what has been used until a moment.
type spent struct {
	at     time.Time
	cpu    time.Duration // by the servers and the side's processes
	busy   time.Duration // by the whole machine
	logged int64
}

func (m *measurer) spent(ctx context.Context, s *side) (out spent, err error) {
	servers, err := m.config.Servers.CPU()
	if err != nil {
		return out, err
	}
	own, err := s.parley.CPU()
	if err != nil {
		return out, errors.Join(err, s.parley.Err())
	}
	for _, by := range []map[string]time.Duration{servers, own} {
		for _, used := range by {
			out.cpu += used
		}
	}
	if out.busy, err = machine.Busy(); err != nil {
		return out, err
	}
	out.at = time.Now()
	out.logged, err = m.config.Servers.Logged(ctx)
	return out, err
}

// others is the share of the machine that neither the side and the servers nor the client have had.
func (s spent) others(end spent, client time.Duration) float64 {
	left := end.busy - s.busy - (end.cpu - s.cpu) - client
	return max(0, left.Seconds()/(end.at.Sub(s.at).Seconds()*float64(runtime.NumCPU())))
}

// last is the newest run.
func (d *Database) last(ctx context.Context) (id string, err error) {
	if err := d.db.QueryRowContext(ctx, `SELECT coalesce(max(id), '') FROM runs WHERE org_id = $1`, d.owner.Organization).Scan(&id); err != nil {
		return "", fmt.Errorf("reading the newest run: %w", err)
	}
	return id, nil
}

// claimed is how many milliseconds runs that are newer have waited for a worker, on average.
func (d *Database) claimed(ctx context.Context, last string) (ms float64, err error) {
	err = d.db.QueryRowContext(ctx, `SELECT coalesce(avg(extract(epoch FROM started_at - created_at)) * 1000, 0) FROM runs WHERE org_id = $1 AND id > $2`,
		d.owner.Organization, last).Scan(&ms)
	if err != nil {
		return 0, fmt.Errorf("reading when runs were claimed: %w", err)
	}
	return ms, nil
}

func newClient() *http.Client { return &http.Client{Transport: &http.Transport{}} }

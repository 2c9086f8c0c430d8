package code

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"parley/scripts/bench/internal/latency"
	"parley/scripts/bench/internal/parley"
	"parley/scripts/bench/internal/process"
	"parley/scripts/bench/internal/report"
	"parley/shared/bus"
	"parley/shared/contract"
	"parley/shared/domain"
	"parley/shared/id"
	"parley/shared/secrets"
	"parley/shared/store"
	"parley/shared/store/accountdb"
)

const (
	startTimeout = 60 * time.Second
	callTimeout  = 30 * time.Second
	program      = "print(6 * 7)"
	answer       = `42`
	// A secret that nothing else has: the worker only ever meets this bench.
	secretsKey = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"
)

// Config says what to measure.
type Config struct {
	Binaries    parley.Binaries
	DatabaseURL string
	NATSURL     string
	LogsDir     string
	Calls       int           // of each side in a round
	Rounds      int           // each side's calls in turn
	Pause       time.Duration // between calls: an agent asks its model in between
	Progress    func(round int, side string, p50, p99 float64)
}

// bench is a run that calls are made for, and the way to the worker.
type bench struct {
	Config

	caller *bus.ToolCaller
	signer *secrets.Signer
	claims contract.Capability
	floor  *floor
}

// Run measures floor, cold and warm calls in turn.
func Run(ctx context.Context, c Config) (*report.Code, error) {
	b := &bench{Config: c}
	done, err := b.open(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	out := &report.Code{Calls: c.Calls, Rounds: c.Rounds, PauseMillis: float64(c.Pause) / 1e6}
	for round := range c.Rounds {
		for _, side := range []struct {
			name string
			call func(context.Context) (time.Duration, error)
			warm string // SANDBOX_WARM of the worker; "" without one
			into *[]report.CodeSide
		}{
			{"floor", b.floor.call, "", &out.Floor.Rounds},
			{"cold", b.call, "0", &out.Cold.Rounds},
			{"warm", b.call, "-1", &out.Warm.Rounds},
		} {
			measured, err := b.side(ctx, side.warm, side.call)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", side.name, err)
			}
			*side.into = append(*side.into, measured)
			if c.Progress != nil {
				c.Progress(round+1, side.name, measured.P50, measured.P99)
			}
		}
	}
	out.Compare()
	return out, nil
}

// open makes what the worker looks up of a call: an agent that may run code.
func (b *bench) open(ctx context.Context) (done func(), err error) {
	if b.floor, err = findFloor(); err != nil {
		return nil, err
	}
	if err := parley.Migrate(ctx, b.DatabaseURL); err != nil {
		return nil, err
	}
	st, err := store.Open(b.DatabaseURL, 2)
	if err != nil {
		return nil, fmt.Errorf("opening database: %w", err)
	}
	defer st.Close()
	account, err := st.Accounts.SignUp(ctx, accountdb.NewUser{Email: "bench@example.com", Name: "bench"},
		accountdb.NewLogin{TokenHash: []byte("bench"), ExpiresAt: time.Now().Add(time.Hour)})
	if err != nil {
		return nil, fmt.Errorf("making account: %w", err)
	}
	org := account.Organization.ID
	agent, err := st.Agents.CreateAgent(ctx, org, domain.Agent{
		ID: id.New(id.Agent), Name: "Analyst", SystemPrompt: "Calculate.", Model: "offline",
		AllowedCallers: []domain.CallerKind{domain.CallerSystem}, Tools: domain.Tools{CodeExecution: &domain.CodeTool{Enabled: true}},
	})
	if err != nil {
		return nil, fmt.Errorf("making agent: %w", err)
	}
	b.claims = contract.Capability{
		OrganizationID: org, RunID: id.New(id.Run), TargetID: agent.ID, ConfigVersion: agent.Version, Fence: 1,
		Kind: contract.ToolCodeExecution,
	}
	if b.signer, err = secrets.NewSigner(secretsKey); err != nil {
		return nil, fmt.Errorf("making signer: %w", err)
	}
	conn, err := bus.Dial(b.NATSURL, "bench", zerolog.Nop())
	if err != nil {
		return nil, fmt.Errorf("connecting to NATS: %w", err)
	}
	if b.caller, err = conn.NewToolCaller(); err != nil {
		conn.Close()
		return nil, fmt.Errorf("connecting to NATS: %w", err)
	}
	return func() {
		b.caller.Close()
		conn.Close()
	}, nil
}

// side makes a round's calls of one side, with a worker of its own unless warm is empty.
func (b *bench) side(ctx context.Context, warm string, call func(context.Context) (time.Duration, error)) (out report.CodeSide, err error) {
	if warm != "" {
		worker, err := b.startWorker(ctx, warm)
		if err != nil {
			return out, err
		}
		defer func() { err = errors.Join(err, worker.Stop()) }()
	}
	for range 3 { // not measured
		if err := b.timed(ctx, call, nil); err != nil {
			return out, err
		}
	}
	var took latency.Histogram
	for range b.Calls {
		if err := b.timed(ctx, call, &took); err != nil {
			return out, err
		}
	}
	return report.CodeSide{P50: milliseconds(took.Quantile(.5)), P99: milliseconds(took.Quantile(.99)), Max: milliseconds(took.Max())}, nil
}

// timed makes a call, and waits as an agent does before the next.
func (b *bench) timed(ctx context.Context, call func(context.Context) (time.Duration, error), took *latency.Histogram) error {
	d, err := call(ctx)
	if err != nil {
		return err
	}
	if took != nil {
		took.Record(d)
	}
	pause := time.NewTimer(b.Pause)
	defer pause.Stop()
	select {
	case <-pause.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func (b *bench) startWorker(ctx context.Context, warm string) (*process.Process, error) {
	worker, err := process.Start(ctx, process.Config{
		Name: "tool-worker", Path: b.Binaries.Worker, Args: []string{"--roles=tool"}, LogsDir: b.LogsDir, Env: map[string]string{
			"DATABASE_URL": b.DatabaseURL, "NATS_URL": b.NATSURL, "SECRETS_KEY": secretsKey, "SANDBOX_WARM": warm, "LOG_FORMAT": "json",
		},
	})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	err = worker.Await(ctx, func(ctx context.Context) bool {
		_, err := b.call(ctx)
		return err == nil
	})
	if err != nil {
		return nil, errors.Join(err, worker.Stop())
	}
	return worker, nil
}

// call has the worker run the program, and gives the time up to its whole answer.
func (b *bench) call(ctx context.Context) (took time.Duration, err error) {
	claims := b.claims
	claims.CallID, claims.Expires = id.New("call"), time.Now().Add(callTimeout).UTC()
	arguments, err := json.Marshal(map[string]string{"code": program})
	if err != nil {
		return 0, fmt.Errorf("writing arguments: %w", err)
	}
	body, err := json.Marshal(contract.ToolRequest{
		Operation: contract.OperationCall, CallID: claims.CallID, Name: contract.ToolCodeExecution, Arguments: arguments,
	})
	if err != nil {
		return 0, fmt.Errorf("writing call: %w", err)
	}
	sealed, err := json.Marshal(claims)
	if err != nil {
		return 0, fmt.Errorf("writing capability: %w", err)
	}
	began := time.Now()
	raw, err := b.caller.Call(ctx, claims.Kind, b.signer.Sign(sealed, body), body, claims.Expires)
	if err != nil {
		return 0, fmt.Errorf("calling: %w", err)
	}
	took = time.Since(began)
	var reply contract.ToolReply
	var output struct {
		Stdout string `json:"stdout"`
	}
	if err := errors.Join(json.Unmarshal(raw, &reply), json.Unmarshal(reply.Output, &output)); err != nil {
		return 0, fmt.Errorf("reading answer %.300s: %w", raw, err)
	}
	if reply.Failure != nil || strings.TrimSpace(output.Stdout) != answer {
		return 0, fmt.Errorf("the program answered %.300s", raw)
	}
	return took, nil
}

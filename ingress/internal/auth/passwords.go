package auth

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/alexedwards/argon2id"
)

// PasswordCost is what a password costs: about 25 ms and 19 MiB, as OWASP advises for argon2id with one lane.
var PasswordCost = argon2id.Params{Memory: 19 * 1024, Iterations: 2, Parallelism: 1, SaltLength: 16, KeyLength: 32}

const (
	passwordWait = 5 * time.Second
	// How many may wait for each slot: they are through in under two seconds.
	waitersPerSlot = 64
)

var errPasswordsBusy = errors.New("too many passwords are being checked")

// Passwords hashes and checks passwords, a few at a time: each takes a core and much memory, and anybody may
// ask for one. Those that would have to wait long are refused.
type Passwords struct {
	cost    argon2id.Params
	slots   chan struct{}
	waiting atomic.Int32
	dummy   string // what the password of an account that has none is compared with
}

// NewPasswords prepares to hash so many passwords at a time, at that cost each; 0 stands for the number of cores.
func NewPasswords(slots int, cost argon2id.Params) (*Passwords, error) {
	if slots < 1 {
		slots = runtime.GOMAXPROCS(0)
	}
	dummy, err := argon2id.CreateHash("no password is this one", &cost)
	if err != nil {
		return nil, fmt.Errorf("preparing passwords: %w", err)
	}
	return &Passwords{cost: cost, slots: make(chan struct{}, slots), dummy: dummy}, nil
}

// Hash makes the text to store for a password, of its normalized form.
func (p *Passwords) Hash(ctx context.Context, password string) (string, error) {
	password, err := NormalizePassword(password)
	if err != nil {
		return "", err
	}
	leave, err := p.enter(ctx)
	if err != nil {
		return "", err
	}
	defer leave()
	hash, err := argon2id.CreateHash(password, &p.cost)
	if err != nil {
		return "", fmt.Errorf("hashing password: %w", err)
	}
	return hash, nil
}

// Matches compares a password, normalized and as it was typed, with its stored hash. With none stored it takes as long and is false,
// so that the time does not tell which accounts exist.
func (p *Passwords) Matches(ctx context.Context, password, hash string) (bool, error) {
	leave, err := p.enter(ctx)
	if err != nil {
		return false, err
	}
	defer leave()
	compared := hash
	if hash == "" {
		compared = p.dummy
	}
	for _, spelling := range spellings(password) {
		same, err := argon2id.ComparePasswordAndHash(spelling, compared)
		if err != nil {
			return false, fmt.Errorf("comparing password: %w", err)
		}
		if same {
			return hash != "", nil
		}
	}
	return false, nil
}

// enter waits for a slot, for a moment; overloaded when none becomes free.
func (p *Passwords) enter(ctx context.Context) (leave func(), err error) {
	leave = func() { <-p.slots }
	select {
	case p.slots <- struct{}{}:
		return leave, nil
	default:
	}
	if int(p.waiting.Add(1)) > waitersPerSlot*cap(p.slots) {
		p.waiting.Add(-1)
		return nil, busy(errPasswordsBusy)
	}
	defer p.waiting.Add(-1)
	timer := time.NewTimer(passwordWait)
	defer timer.Stop()
	select {
	case p.slots <- struct{}{}:
		return leave, nil
	case <-timer.C:
		return nil, busy(errPasswordsBusy)
	case <-ctx.Done():
		return nil, fmt.Errorf("waiting to check a password: %w", ctx.Err())
	}
}

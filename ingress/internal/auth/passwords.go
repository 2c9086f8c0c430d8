package auth

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/alexedwards/argon2id"
	"golang.org/x/crypto/argon2"
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
	dummy   string // the scheme under which the password of an account that there is not is computed
}

// NewPasswords prepares to hash so many passwords at a time, at that cost each; 0 stands for the number of cores.
func NewPasswords(slots int, cost argon2id.Params) *Passwords {
	if slots < 1 {
		slots = runtime.GOMAXPROCS(0)
	}
	p := &Passwords{cost: cost, slots: make(chan struct{}, slots)}
	p.dummy = p.newScheme()
	return p
}

// A stored password is $argon2id$v=…$m=…,t=…,p=…$SALT$KEY. What stands before the last $ is its scheme. The accounts of an email
// address share a scheme: however many have or had the address, a login computes one key.

// Hash makes the text to store for a password, of its normalized form, under the first of the schemes that has today's cost, or under
// a new one.
func (p *Passwords) Hash(ctx context.Context, password string, schemes []string) (string, error) {
	password, err := NormalizePassword(password)
	if err != nil {
		return "", err
	}
	leave, err := p.enter(ctx)
	if err != nil {
		return "", err
	}
	defer leave()
	if i := slices.IndexFunc(schemes, func(scheme string) bool { return strings.HasPrefix(scheme, p.prefix()) }); i >= 0 {
		return hash(schemes[i], password)
	}
	return hash(p.newScheme(), password)
}

// Hashes returns the texts that may be stored for a password under the schemes, of its normalized form and as it was typed. Without a
// scheme there are none, and it takes as long as with one, so that the time does not tell which addresses have accounts.
func (p *Passwords) Hashes(ctx context.Context, password string, schemes []string) (hashes []string, err error) {
	leave, err := p.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	under := schemes
	if len(schemes) == 0 {
		under = []string{p.dummy}
	}
	for _, scheme := range under {
		for _, spelling := range spellings(password) {
			made, err := hash(scheme, spelling)
			if err != nil {
				return nil, err
			}
			hashes = append(hashes, made)
		}
	}
	if len(schemes) == 0 {
		return nil, nil
	}
	return hashes, nil
}

// prefix is what the schemes of today's cost begin with.
func (p *Passwords) prefix() string {
	return fmt.Sprintf("$argon2id$v=%d$m=%d,t=%d,p=%d$", argon2.Version, p.cost.Memory, p.cost.Iterations, p.cost.Parallelism)
}

// newScheme is one of today's cost with a salt of its own.
func (p *Passwords) newScheme() string {
	salt := make([]byte, p.cost.SaltLength)
	_, _ = rand.Read(salt) // it never fails
	return p.prefix() + base64.RawStdEncoding.EncodeToString(salt)
}

// hash computes the text of a password under a scheme.
func hash(scheme, password string) (string, error) {
	noKey := base64.RawStdEncoding.EncodeToString(make([]byte, PasswordCost.KeyLength))
	cost, salt, _, err := argon2id.DecodeHash(scheme + "$" + noKey)
	if err != nil {
		return "", fmt.Errorf("reading stored password: %w", err)
	}
	key := argon2.IDKey([]byte(password), salt, cost.Iterations, cost.Memory, cost.Parallelism, PasswordCost.KeyLength)
	return scheme + "$" + base64.RawStdEncoding.EncodeToString(key), nil
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

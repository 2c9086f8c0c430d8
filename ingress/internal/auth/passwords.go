package auth

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"runtime"
	"slices"
	"strings"

	"github.com/alexedwards/argon2id"
	"golang.org/x/crypto/argon2"
)

// PasswordCost is the cost of a hash: about 25 ms and 19 MiB, which OWASP recommends for argon2id
// with one thread.
var PasswordCost = argon2id.Params{Memory: 19 * 1024, Iterations: 2, Parallelism: 1, SaltLength: 16, KeyLength: 32}

// Passwords hashes and checks passwords, a few at a time, because each hash occupies a core and a
// lot of memory, and any client can request one. Waiting clients take turns. It rejects requests that
// would have to wait too long. It is safe for concurrent use. A process uses a single Passwords.
type Passwords struct {
	cost  argon2id.Params
	queue *passwordQueue
	dummy string // scheme for the hash that is computed if no account has the email address
}

// NewPasswords returns Passwords that compute as many hashes at a time as there are slots. If slots
// is 0, it uses one slot per core. NewPasswords computes no hash.
func NewPasswords(slots int, cost argon2id.Params) *Passwords {
	if slots < 1 {
		slots = runtime.GOMAXPROCS(0)
	}

	// The dummy scheme has the current cost, so that hashing takes as long as with the scheme of an
	// account.
	p := &Passwords{cost: cost, queue: newPasswordQueue(slots)}
	p.dummy = p.newScheme()
	return p
}

// A stored password has the form $argon2id$v=…$m=…,t=…,p=…$SALT$KEY. Its scheme is the part before
// the last $. Several accounts may have or have had the same email address. Their passwords share a
// scheme, so that a login computes only one key for all of them.

// Hash returns the text to store for a password. It hashes the normalized form of the password. It
// uses the first of the schemes that has the current cost. If there is none, it uses a new scheme.
// The error is overloaded if no slot becomes free, or a problem of the password. The caller stores
// the text; the same password under the same scheme has the same text. client is the name that
// Resolver.DemoClient returns.
func (p *Passwords) Hash(ctx context.Context, client, password string, schemes []string) (string, error) {
	password, err := NormalizePassword(password)
	if err != nil {
		return "", err
	}

	// Only hashing needs a slot, because it is the expensive part.
	if err := p.queue.enter(ctx, client); err != nil {
		return "", err
	}
	defer p.queue.leave()
	if i := slices.IndexFunc(schemes, func(scheme string) bool { return strings.HasPrefix(scheme, p.prefix()) }); i >= 0 {
		return hash(schemes[i], password)
	}
	return hash(p.newScheme(), password)
}

// Hashes returns the texts that may be stored for a password under the given schemes, both for the
// password's normalized form and for the form as typed. Without schemes it returns nil but takes as
// long as with one scheme, so that the response time does not reveal which email addresses have
// accounts. The caller compares the returned texts with the stored texts. The error is overloaded
// if no slot becomes free. client is the name that Resolver.DemoClient returns.
func (p *Passwords) Hashes(ctx context.Context, client, password string, schemes []string) (hashes []string, err error) {
	if err := p.queue.enter(ctx, client); err != nil {
		return nil, err
	}
	defer p.queue.leave()

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

// prefix returns the prefix that all schemes with the current cost have.
func (p *Passwords) prefix() string {
	return fmt.Sprintf("$argon2id$v=%d$m=%d,t=%d,p=%d$", argon2.Version, p.cost.Memory, p.cost.Iterations, p.cost.Parallelism)
}

// newScheme returns a scheme with the current cost and a new salt.
func (p *Passwords) newScheme() string {
	salt := make([]byte, p.cost.SaltLength)
	_, _ = rand.Read(salt) // rand.Read never returns an error
	return p.prefix() + base64.RawStdEncoding.EncodeToString(salt)
}

// hash hashes a password under a scheme. It returns the text to store. The cost is that of the
// scheme, so old passwords keep their cost.
func hash(scheme, password string) (string, error) {
	// The library only decodes complete hashes, so a key of zeros is appended to the scheme.
	noKey := base64.RawStdEncoding.EncodeToString(make([]byte, PasswordCost.KeyLength))
	cost, salt, _, err := argon2id.DecodeHash(scheme + "$" + noKey)
	if err != nil {
		return "", fmt.Errorf("reading stored password: %w", err)
	}

	key := argon2.IDKey([]byte(password), salt, cost.Iterations, cost.Memory, cost.Parallelism, PasswordCost.KeyLength)
	return scheme + "$" + base64.RawStdEncoding.EncodeToString(key), nil
}

package intake

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"parley/ingress/internal/webhookin"
	"parley/shared/apierr"
	"parley/shared/domain"
	"parley/shared/store/hookdb"
	"parley/shared/store/sealdb"
)

const (
	hookRemembered = 4 * time.Second // how long a hook is cached: a change takes effect within 5 s, even if a read is slow
	maxHooks       = 2000            // maximum number of cached hooks
	maxMissing     = 1000            // maximum number of cached ids that have no hook
	hookKept       = time.Minute     // how long an unused hook stays in the cache
	hookReads      = 16              // number of concurrent reads of unknown ids, and of recently cached hooks
	// Timeout of a read, including the wait for a slot.
	hookReadTime = 3 * time.Second
)

// Hook is a hook that accepts deliveries, with its secrets decrypted and its rules parsed. It is
// shared by all deliveries of a process and not modified after it was read.
type Hook struct {
	hookdb.ReceivingHook

	Secrets []string // current secret, followed by the previous one during a rotation

	// Parsed rules; nil if the hook is disabled or no secret can be decrypted.
	rules *webhookin.Rules
}

// Caller returns the caller in whose name the hook starts runs: the hook's key. Runs of the hook
// have the permissions and the budget of this key.
func (h *Hook) Caller() domain.Caller {
	return domain.Caller{
		Kind: domain.CallerSystem, OrganizationID: h.OrganizationID, UserID: h.KeyUserID, KeyID: h.KeyID, Credential: h.KeyID,
	}
}

// Hooks caches hooks, and ids that have no hook. The number of concurrent reads is limited. Unknown
// ids have a separate limit, so that a flood of random ids delays only reads of unknown ids. Hooks
// is safe for concurrent use. A process uses a single cache.
type Hooks struct {
	// Reads a hook from the database; the error is not_found if there is none.
	read         func(ctx context.Context, id string) (hookdb.ReceivingHook, error)
	secrets      Opener
	first, again chan struct{} // slots for reads of unknown ids and for reads of recently cached hooks

	mu sync.Mutex
	// Hooks by id, including disabled ones.
	known   map[string]knownHook
	missing map[string]time.Time // ids without a hook, and when their entries expire
	swept   time.Time            // when expired entries were last removed from the caches
}

// knownHook is an entry of the cache. The hook may be used before the time in the field until.
// After that, the entry only shows that the id is known.
type knownHook struct {
	hook  *Hook // the hook; nil if there is no hook with this id
	err   error // why none of the hook's secrets can be decrypted
	until time.Time
}

// Opener decrypts stored secrets. A Watch of package sealed implements it.
type Opener interface {
	OpenText(kind sealdb.Kind, org, id, sealed string) (string, error)
}

// NewHooks returns a cache that reads hooks with the function read and decrypts their secrets with
// opener. It starts no goroutine.
func NewHooks(read func(context.Context, string) (hookdb.ReceivingHook, error), opener Opener) *Hooks {
	return &Hooks{
		read: read, secrets: opener, first: make(chan struct{}, hookReads), again: make(chan struct{}, hookReads),
		known: map[string]knownHook{}, missing: map[string]time.Time{},
	}
}

// Get returns a hook that accepts deliveries. It returns not_found if the hook does not exist or is
// disabled, and another error if its secrets cannot be decrypted. The error is overloaded if too
// many reads are in progress. A change in another process takes effect after at most 5 s. The
// result must not be modified.
func (l *Hooks) Get(ctx context.Context, id string) (*Hook, error) {
	// Disabled and unknown hooks are cached, too, so that senders who keep trying cause no queries.
	entry, known := l.remembered(id)
	if !known {
		var err error
		if entry, err = l.find(ctx, id); err != nil {
			return nil, err
		}
	}
	if entry.hook == nil || !entry.hook.Enabled {
		return nil, apierr.Missing()
	}
	if entry.err != nil {
		return nil, entry.err
	}
	return entry.hook, nil
}

// remembered returns the cached entry of an id. known is false if there is no entry or if the entry
// has expired.
func (l *Hooks) remembered(id string) (entry knownHook, known bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	if now.Before(l.missing[id]) {
		return knownHook{}, true
	}
	entry, known = l.known[id]
	return entry, known && now.Before(entry.until)
}

// queue returns the channel of slots that a read of the id must use. An id that was read recently
// has a hook, so it cannot come from a flood of random ids.
func (l *Hooks) queue(id string) chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, was := l.known[id]; was {
		return l.again
	}
	return l.first
}

// find reads a hook, unless another request has read it while this request waited for a slot. The
// wait and the read together take at most hookReadTime. Errors of the database are not cached.
func (l *Hooks) find(ctx context.Context, id string) (knownHook, error) {
	ctx, cancel := context.WithTimeout(ctx, hookReadTime)
	defer cancel()

	reads := l.queue(id)
	select {
	case reads <- struct{}{}:
		defer func() { <-reads }()
	case <-ctx.Done():
		return knownHook{}, tooManyHooks()
	}

	// Another request may have read the hook while this request waited for a slot.
	if entry, known := l.remembered(id); known {
		return entry, nil
	}
	entry := knownHook{until: time.Now().Add(hookRemembered)} // counted from before the read, because the read may miss later changes
	found, err := l.read(ctx, id)
	switch {
	case apierr.CodeFor(err) == apierr.NotFound:
	case err != nil:
		return knownHook{}, err
	default:
		entry.hook, err = l.open(found)
		if err != nil && !errors.Is(err, sealdb.ErrUnopened) {
			return knownHook{}, err
		}
		entry.err = err
	}
	l.put(id, entry)
	return entry, nil
}

// open decrypts the secrets of a hook. During a rotation a hook has two secrets, of which one
// suffices. If none can be decrypted, open returns sealdb.ErrUnopened together with the hook. A
// hook that is disabled is returned without secrets and rules. Invalid rules are an error, because
// stored rules were checked before.
func (l *Hooks) open(found hookdb.ReceivingHook) (*Hook, error) {
	hook := &Hook{ReceivingHook: found}
	if !found.Enabled {
		return hook, nil
	}

	var unopened error
	for _, sealed := range found.SealedSecrets {
		secret, err := l.secrets.OpenText(sealdb.KindHook, found.OrganizationID, found.ID, sealed)
		if err != nil {
			unopened = fmt.Errorf("decrypting secret of hook: %w", err)
			continue
		}
		hook.Secrets = append(hook.Secrets, secret)
	}

	if len(hook.Secrets) == 0 && unopened != nil {
		return hook, unopened
	}

	// Parse the rules when the hook is read, so that deliveries need not do so.
	rules, faults := webhookin.NewRules(found.MessageTemplate, found.Filter, found.Coalesce)
	if len(faults) > 0 {
		return nil, fmt.Errorf("reading rules of hook %s: %s: %w", found.ID, faults[0].Field, faults[0].Err)
	}
	hook.rules = rules
	return hook, nil
}

// put caches an entry. If the cache is full, it is cleared, because reading the hooks again is
// cheap. put also removes expired entries, at most once a minute.
func (l *Hooks) put(id string, entry knownHook) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now := time.Now(); now.Sub(l.swept) > hookKept {
		l.swept = now
		maps.DeleteFunc(l.known, func(_ string, e knownHook) bool { return now.Sub(e.until) > hookKept })
		maps.DeleteFunc(l.missing, func(_ string, until time.Time) bool { return now.After(until) })
	}
	if entry.hook == nil {
		delete(l.known, id)
		if len(l.missing) >= maxMissing {
			clear(l.missing) // reading the ids again is cheap
		}
		l.missing[id] = entry.until
		return
	}
	if len(l.known) >= maxHooks {
		clear(l.known)
	}
	delete(l.missing, id)
	l.known[id] = entry
}

// Forget drops a hook from the cache, so that a change takes effect on this process immediately.
// Other processes see the change when their entry expires. An unknown id is ignored.
func (l *Hooks) Forget(id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.known, id)
	delete(l.missing, id)
}

// tooManyHooks returns the error for a delivery whose hook was not read because too many reads were
// in progress. Its status is 503, and the sender may retry after a second.
func tooManyHooks() error {
	busy := apierr.New(apierr.Overloaded, "too many deliveries to unknown hooks")
	busy.RetryAfter = time.Second
	return busy
}

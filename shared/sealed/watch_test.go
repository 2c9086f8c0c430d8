package sealed_test

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"parley/shared/sealed"
	"parley/shared/sealed/sealedtest"
	"parley/shared/secrets"
	"parley/shared/store/sealdb"
	"parley/shared/testkit"
)

// lines is a log writer that calls the function closed after a number of lines.
type lines struct {
	mu      sync.Mutex
	buf     bytes.Buffer
	maximum int
	closed  func()
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.maximum--; l.maximum == 0 {
		l.closed()
	}
	return l.buf.Write(p)
}

func gauge(t *testing.T, registry *prometheus.Registry, name, kind string) float64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			if family.GetName() == name && metric.GetLabel()[0].GetValue() == kind {
				return metric.GetGauge().GetValue() + metric.GetCounter().GetValue()
			}
		}
	}
	return -1
}

// At its start, a process logs which keys it lacks, once for each kind of value, and continues.
func TestMissingKeysAreLoggedAtTheStart(t *testing.T) {
	t.Parallel()
	dsn := testkit.Postgres(t)
	sealedtest.New(t, dsn, sealedtest.KeyA, "ada@example.com")
	ctx, stop := context.WithCancel(t.Context())
	log, registry := &lines{maximum: len(sealdb.Kinds), closed: stop}, prometheus.NewRegistry()
	s := sealedtest.Open(t, dsn, sealedtest.KeyB)
	w, err := sealed.NewWatch(sealedtest.Box(t, sealedtest.KeyB), registry, zerolog.New(log))
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Run(ctx, s.Seals); err != nil {
		t.Error(err)
	}
	keyA := sealedtest.Box(t, sealedtest.KeyA).KeyIDs()[0]
	for _, kind := range sealdb.Kinds {
		want := `{"level":"error","kind":"` + string(kind) + `","key_id":"` + keyA + `","message":"stored values need a key that SECRETS_KEY does not have`
		if n := strings.Count(log.buf.String(), want); n != 1 {
			t.Errorf("%d lines are about %s: %s", n, kind, &log.buf)
		}
	}
	if n := gauge(t, registry, "parley_secrets_missing_keys", "hook"); n != 1 {
		t.Errorf("%v missing keys of hooks were counted", n)
	}
	// Another part of the process shares the metrics and does not check the keys.
	duplicate, err := sealed.NewWatch(sealedtest.Box(t, sealedtest.KeyB), registry, zerolog.New(log))
	if err != nil {
		t.Fatal(err)
	}
	if err := duplicate.Run(ctx, nil); err != nil {
		t.Error(err)
	}
	if _, err := duplicate.OpenText(sealdb.KindHook, "org_1", "hook_1", "v1."+keyA+".abc"); !errors.Is(err, sealdb.ErrUnopened) {
		t.Errorf("opened with %v", err)
	}
	if n := gauge(t, registry, "parley_secrets_unopened_total", "hook"); n != 1 {
		t.Errorf("%v values that were not opened were counted", n)
	}
}

// seen counts the kinds that a watch checks. It stops the watch after the last kind, or with an
// error.
type seen struct {
	sealed.Values

	stop  context.CancelFunc
	kinds int
	err   error
}

func (s *seen) SealedKeys(ctx context.Context, kind sealdb.Kind) ([]string, error) {
	if s.kinds++; s.err != nil || s.kinds == len(sealdb.Kinds) {
		defer s.stop()
	}
	if s.err != nil {
		return nil, s.err
	}
	return s.Values.SealedKeys(ctx, kind)
}

// Nothing is logged by a process that has all keys, nor by a process that cannot reach the database
// yet.
func TestNoMissingKeys(t *testing.T) {
	t.Parallel()
	dsn := testkit.Postgres(t)
	sealedtest.New(t, dsn, sealedtest.KeyA, "ada@example.com")
	s := sealedtest.Open(t, dsn, sealedtest.KeyB)
	for _, failure := range []error{nil, errors.New("the database is away")} {
		ctx, stop := context.WithCancel(t.Context())
		log, registry := &lines{}, prometheus.NewRegistry()
		w, err := sealed.NewWatch(sealedtest.Box(t, sealedtest.KeyB+","+sealedtest.KeyA), registry, zerolog.New(log))
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Run(ctx, &seen{Values: s.Seals, stop: stop, err: failure}); err != nil {
			t.Error(err)
		}
		if log.buf.Len() > 0 || failure == nil && gauge(t, registry, "parley_secrets_missing_keys", "hook") != 0 {
			t.Errorf("%v: the log says %s", failure, &log.buf)
		}
	}
}

// The log distinguishes a value that was changed from a value that was sealed with a missing key.
func TestWhyAValueIsNotOpened(t *testing.T) {
	t.Parallel()
	box, log := sealedtest.Box(t, sealedtest.KeyA), &lines{}
	w, err := sealed.NewWatch(box, prometheus.NewRegistry(), zerolog.New(log))
	if err != nil {
		t.Fatal(err)
	}
	good := box.Seal("x", secrets.Hook("org_1", "hook_1"))
	if plain, err := w.OpenText(sealdb.KindHook, "org_1", "hook_1", good); err != nil || plain != "x" {
		t.Errorf("opened %q, %v", plain, err)
	}
	for value, want := range map[string]string{good: "belongs to another record", "v1.0a0a0a0a.x": "not in SECRETS_KEY", "plain": "malformed"} {
		log.buf.Reset()
		if _, err := w.OpenText(sealdb.KindHook, "org_2", "hook_1", value); !errors.Is(err, sealdb.ErrUnopened) || !strings.Contains(log.buf.String(), want) {
			t.Errorf("%s: %v, %s", value, err, &log.buf)
		}
	}
}

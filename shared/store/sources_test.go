package store_test

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"parley/shared/apierr"
	"parley/shared/domain"
	"parley/shared/store/executiondb"
	"parley/shared/store/lease"
)

func (b *testEnv) keep(held lease.Held, src domain.Source) string {
	b.Helper()
	id, kept, err := b.s.Blobs.KeepSource(b.Context(), held, src)
	if err != nil || !kept {
		b.Fatalf("keeping source: %q, %v, %v", id, kept, err)
	}
	return id
}

func TestASourceIsKeptAsItWasRead(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	ctx := t.Context()
	const text = "Zwölf Boxkämpfer 🥊 jagen 一二三"
	page := domain.Source{URL: "https://example.com/a", Title: "A", Language: "de", Text: text, Truncated: true, Characters: 1}
	first, second := b.claimedRun(), b.claimedRun()
	id := b.keep(first, page)
	sum := sha256.Sum256([]byte(text))
	if id != "src_"+hex.EncodeToString(sum[:]) {
		t.Errorf("id %s", id)
	}
	before, err := b.s.Blobs.SourceByID(ctx, b.org, id)
	if err != nil || time.Since(before.ReadAt.Time) > time.Minute {
		t.Fatalf("%+v, %v", before, err)
	}
	want := page
	want.ID, want.Characters, want.ReadAt = id, 28, before.ReadAt
	if before != want {
		t.Errorf("got %+v, want %+v", before, want)
	}
	again := domain.Source{URL: "https://example.com/b", Title: "B", Text: text}
	for _, held := range []lease.Held{first, second, second} {
		if got := b.keep(held, again); got != id {
			t.Errorf("the same text became %s", got)
		}
	}
	if after, err := b.s.Blobs.SourceByID(ctx, b.org, id); err != nil || after != before {
		t.Errorf("after the text was read again, the source is %+v, %v", after, err)
	}
	if n := b.text(`SELECT count(*)::text FROM run_sources`); n != "2" {
		t.Errorf("%s links", n)
	}
	if id := b.keep(first, domain.Source{}); id != "src_e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855" {
		t.Errorf("an empty text is %s", id)
	}
	if _, _, err := b.s.Blobs.KeepSource(ctx, first, domain.Source{Text: "a\x00b"}); err == nil {
		t.Error("a text that PostgreSQL cannot store was kept")
	}
	for _, wrong := range []string{
		"", "src_", id[4:], "src_" + id, strings.ToUpper(id), "src_" + strings.ToUpper(id[4:]), id[:len(id)-2], id + "00", "run_" + id[4:],
		"src_" + strings.Repeat("0", 64), id[:len(id)-1] + "g", id + "\n", " " + id,
	} {
		_, err := b.s.Blobs.SourceByID(ctx, b.org, wrong)
		wantCode(t, err, apierr.NotFound)
	}
}

// If two organizations store the same text, it is stored twice.
func TestSourcesOfOrganizationsNeverMeet(t *testing.T) {
	t.Parallel()
	a := newTestEnv(t)
	b := newEnvOn(t, a.s, a.raw, "bob@example.com")
	heldByA := a.claimedRun()
	id := a.keep(heldByA, domain.Source{Text: "x", URL: "https://example.com/a"})
	_, err := b.s.Blobs.SourceByID(t.Context(), b.org, id)
	wantCode(t, err, apierr.NotFound)
	if got := b.keep(b.claimedRun(), domain.Source{Text: "x", URL: "https://example.com/b"}); got != id {
		t.Errorf("id %s", got)
	}
	if src, err := b.s.Blobs.SourceByID(t.Context(), b.org, id); err != nil || src.URL != "https://example.com/b" {
		t.Errorf("%+v, %v", src, err)
	}
	foreign := heldByA
	foreign.OrganizationID = b.org
	b.does("keep", foreign, false)
}

// The text of a source is removed together with the last run that has read it, by erasure or at the
// end of the retention period.
func TestATextIsRemovedWithItsLastReader(t *testing.T) {
	t.Parallel()
	r := newStoredEnvFor(t)
	ctx := t.Context()
	read := func(session string, texts ...string) *executiondb.Claimed {
		c := r.mustClaim(r.accept(wideWindow, r.auto(session))[0].Run.Run.ID)
		for _, text := range texts {
			r.keep(c.Held(), domain.Source{Text: text})
		}
		r.prepare(c.Held(), effect("c", domain.SideEffectUnsafe), false)
		r.finish(c, "x")
		return c
	}
	left := func(what string, sources, links, effects int) {
		t.Helper()
		if s, l, e := r.number(`SELECT count(*) FROM sources`), r.number(`SELECT count(*) FROM run_sources`), r.number(`SELECT count(*) FROM effects`); s != sources || l != links || e != effects {
			t.Errorf("%s: %d texts, %d links, %d effects are left", what, s, l, e)
		}
	}
	read("erased", "one", "both")
	other := read("expired", "two", "both")
	read("kept", "two")
	left("before", 3, 5, 3)
	r.erase(r.named(domain.SystemPrincipal, "erased"))
	left("after erasing", 2, 3, 2)
	r.raw(`UPDATE runs SET expires_at = clock_timestamp(), sweep_after = clock_timestamp() WHERE id = $1`, other.RunID)
	if n, err := r.s.Sessions.DeleteExpired(ctx, 9); err != nil || n != 1 {
		t.Errorf("%d, %v", n, err)
	}
	left("after retention", 1, 1, 1)
	if n, err := r.s.Blobs.PruneSources(ctx, 9); err != nil || n != 0 {
		t.Errorf("a young text was checked: %d, %v", n, err)
	}
	r.raw(`UPDATE sources SET sweep_after = clock_timestamp()`)
	for _, want := range []int{1, 0} {
		if n, err := r.s.Blobs.PruneSources(ctx, 9); err != nil || n != want {
			t.Errorf("checked %d, want %d: %v", n, want, err)
		}
	}
	left("after pruning what is linked", 1, 1, 1)

	// The previous release erases runs with the following statement, which also deletes their
	// steps.
	r.raw(`INSERT INTO steps (run_id, org_id, n, fence, step) SELECT run_id, org_id, 1, 1, '{}' FROM effects`)
	r.raw(`DELETE FROM steps`)
	left("after the release before", 1, 0, 0)
	r.raw(`UPDATE sources SET sweep_after = clock_timestamp()`)
	if n, err := r.s.Blobs.PruneSources(ctx, 9); err != nil || n != 1 {
		t.Errorf("checked %d, %v", n, err)
	}
	left("in the end", 0, 0, 0)
}

// New runs read texts while the last runs that have read them are removed. No run may keep a link
// to a missing text. At the end, no text may remain.
func TestReadingWhileReadersGo(t *testing.T) {
	t.Parallel()
	r := newStoredEnvFor(t)
	ctx := t.Context()
	r.raw(`ALTER TABLE sources ALTER sweep_after SET DEFAULT clock_timestamp()`)
	stop := make(chan struct{})
	var pruning, wg sync.WaitGroup
	pruned := 0
	rounds := repetitions(t, 15, 40)
	pruning.Go(func() {
		for !isClosed(stop) {
			n, err := r.s.Blobs.PruneSources(ctx, 9)
			if err != nil {
				t.Errorf("pruning: %v", err)
			}
			pruned += n
		}
	})
	for w := range 4 {
		wg.Go(func() {
			for n := range rounds {
				session := fmt.Sprint(w, " ", n)
				c := r.mustClaim(r.accept(wideWindow, r.auto(session))[0].Run.Run.ID)
				r.keep(c.Held(), domain.Source{Text: fmt.Sprint(n % 2)})
				r.keep(c.Held(), domain.Source{Text: fmt.Sprint(1 - n%2)})
				if dangling := r.number(`SELECT count(*) FROM run_sources l WHERE NOT EXISTS
					(SELECT 1 FROM sources s WHERE s.org_id = l.org_id AND s.hash = l.hash)`); dangling != 0 {
					t.Errorf("%d links lead nowhere", dangling)
				}
				r.erase(r.named(domain.SystemPrincipal, session))
			}
		})
	}
	wg.Wait()
	close(stop)
	pruning.Wait()
	if n := r.number(`SELECT count(*) FROM sources`) + r.number(`SELECT count(*) FROM run_sources`); n != 0 || pruned == 0 {
		t.Errorf("%d rows are left, %d texts were checked", n, pruned)
	}
}

// A text that is due for removal is not removed if a run reads it again at that moment.
func TestPruningSkipsTextsBeingRead(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	ctx := t.Context()
	held := b.claimedRun()
	id := b.keep(held, domain.Source{Text: "x"})
	b.exec(`DELETE FROM run_sources`)
	b.exec(`UPDATE sources SET sweep_after = clock_timestamp()`)
	tx, err := b.raw.BeginTx(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, query := range []string{ // the same statement as in KeepSource
		`UPDATE sources SET org_id = org_id`,
		`INSERT INTO run_sources SELECT 'run_other', org_id, hash FROM sources`,
	} {
		if _, err := tx.ExecContext(ctx, query); err != nil {
			t.Fatal(err)
		}
	}
	if n, err := b.s.Blobs.PruneSources(ctx, 9); err != nil || n != 0 {
		t.Errorf("checked %d, %v", n, err)
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	if n, err := b.s.Blobs.PruneSources(ctx, 9); err != nil || n != 1 {
		t.Errorf("checked %d, %v", n, err)
	}
	if _, err := b.s.Blobs.SourceByID(ctx, b.org, id); err != nil {
		t.Error(err)
	}
}

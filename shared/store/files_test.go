package store_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"parley/shared/apierr"
	"parley/shared/domain"
	"parley/shared/id"
	"parley/shared/store/blobdb"
	"parley/shared/store/executiondb"
	"parley/shared/store/lease"
)

const mib = 1 << 20

func made(name, content string) blobdb.NewFile {
	return blobdb.NewFile{Name: name, MIMEType: "text/plain", Content: []byte(content)}
}

// randomBytes returns random bytes, different for each seed.
func randomBytes(size int, seed byte) []byte {
	sum, out := sha256.Sum256([]byte{seed}), make([]byte, 0, size+sha256.Size)
	for len(out) < size {
		out = append(out, sum[:]...)
		sum = sha256.Sum256(sum[:])
	}
	return out[:size]
}

func (b *testEnv) make(held lease.Held, call string, files ...blobdb.NewFile) []domain.File {
	b.Helper()
	out, kept, err := b.s.Blobs.KeepFiles(b.Context(), held, call, files, nil, 0)
	if err != nil || !kept || len(out) != len(files) {
		b.Fatalf("keeping files: %+v, %v, %v", out, kept, err)
	}
	return out
}

func (b *testEnv) remove(held lease.Held, call string, names ...string) {
	b.Helper()
	if out, kept, err := b.s.Blobs.KeepFiles(b.Context(), held, call, nil, names, 0); err != nil || !kept || len(out) != 0 {
		b.Fatalf("removing files: %+v, %v, %v", out, kept, err)
	}
}

// content reads a whole file.
func (b *testEnv) content(id string) string {
	b.Helper()
	_, r, err := b.s.Blobs.OpenFile(b.Context(), b.org, id)
	if err != nil {
		b.Fatalf("opening file: %v", err)
	}
	defer func() { _ = r.Close() }()
	content, err := io.ReadAll(r)
	if err != nil {
		b.Fatalf("reading file: %v", err)
	}
	return string(content)
}

// folder describes the files that a call finds in the session's folder. The result is text: the
// names and contents of the files.
func (b *testEnv) folder(held lease.Held, call string) string {
	b.Helper()
	files, kept, err := b.s.Blobs.SessionFiles(b.Context(), held, call)
	if err != nil || !kept {
		b.Fatalf("files of the session: %v, %v", kept, err)
	}
	shown := ""
	for _, f := range files {
		shown += f.Name + "=" + b.content(f.ID) + " "
	}
	return strings.TrimSpace(shown)
}

func (b *testEnv) wantFolder(what string, held lease.Held, call, want string) {
	b.Helper()
	if got := b.folder(held, call); got != want {
		b.Errorf("%s: %q, want %q", what, got, want)
	}
}

// inSession accepts and claims a run of a session.
func (b *testEnv) inSession(session string) *executiondb.Claimed {
	b.Helper()
	return b.mustClaim(b.accept(wideWindow, b.run("", session))[0].Run.Run.ID)
}

// stored counts contents, chunks and files.
func (b *testEnv) stored() string {
	b.Helper()
	return b.text(`SELECT format('%s contents %s chunks %s files', (SELECT count(*) FROM blobs), (SELECT count(*) FROM blob_chunks), (SELECT count(*) FROM files))`)
}

func (b *testEnv) wantStored(what, want string) {
	b.Helper()
	if got := b.stored(); got != want {
		b.Errorf("%s: %s, want %s", what, got, want)
	}
}

func TestFilesAreKeptAsTheyWereMade(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	held := b.claimedRun()
	files := []blobdb.NewFile{
		{Name: "z.png", MIMEType: "image/png", Content: randomBytes(mib+mib/2, 1)},
		{Name: "out/ä \"b\" 🥊.csv", MIMEType: "text/csv", Content: []byte("a,b\x00\xff\\x41\n")},
		{Name: "whole", Content: randomBytes(2*mib, 2)},
		{Name: "and one", Content: randomBytes(2*mib+1, 2)},
		{Name: "one less", Content: randomBytes(2*mib-1, 2)},
		{Name: "empty"},
		{Name: "same", MIMEType: "image/gif", Content: randomBytes(mib+mib/2, 1)},
	}
	out := b.make(held, "c", files...)
	for i, got := range out {
		sum := sha256.Sum256(files[i].Content)
		want := domain.File{
			ID: got.ID, Name: files[i].Name, MIMEType: files[i].MIMEType, Bytes: int64(len(files[i].Content)), SHA256: hex.EncodeToString(sum[:]),
			RunID: held.RunID, CallID: "c", CreatedAt: got.CreatedAt,
		}
		if got != want || !id.Valid(id.File, got.ID) || time.Since(got.CreatedAt.Time).Abs() > time.Minute {
			t.Errorf("got %+v, want %+v", got, want)
		}
		if found, _, err := b.s.Blobs.OpenFile(t.Context(), b.org, got.ID); err != nil || found != got {
			t.Errorf("found %+v, %v; want %+v", found, err, got)
		}
		if b.content(got.ID) != string(files[i].Content) {
			t.Errorf("%s has another content", got.Name)
		}
	}
	b.wantStored("after keeping", "6 contents 10 chunks 7 files")
	if out := b.make(held, "other"); len(out) != 0 {
		t.Errorf("of nothing: %v", out)
	}
	for _, wrong := range []string{"", "file_", out[0].ID + "0", strings.ToUpper(out[0].ID), out[0].ID[5:], id.New(id.File), held.RunID, "a' OR true --"} {
		_, _, err := b.s.Blobs.OpenFile(t.Context(), b.org, wrong)
		wantCode(t, err, apierr.NotFound)
	}
	for what, bad := range map[string][]blobdb.NewFile{
		"a name twice": {made("a", "1"), made("a", "1")}, "a name no text can be": {made("a\x00b", "1")}, "nor this": {made("\xff", "1")},
	} {
		if _, kept, err := b.s.Blobs.KeepFiles(t.Context(), held, "c", bad, nil, 0); err == nil || kept {
			t.Errorf("%s was kept", what)
		}
	}
	if _, kept, err := b.s.Blobs.KeepFiles(t.Context(), held, "c", files[:1], []string{"z.png"}, 0); err == nil || kept {
		t.Error("a name that is both made and removed was kept")
	}
	if n := b.text(`SELECT count(*)::text FROM files`); n != "7" {
		t.Errorf("%s files are left", n)
	}
}

func TestASessionsFolder(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	first := b.inSession("s")
	b.wantFolder("an empty one", first.Held(), "c1", "")
	b.make(first.Held(), "c1", made("b", "b1"), made("a/z", "az1"), made("B", "B1"))
	b.wantFolder("the call itself", first.Held(), "c1", "")
	b.wantFolder("the next call", first.Held(), "c2", "B=B1 a/z=az1 b=b1")
	b.make(first.Held(), "c2", made("b", "b2"), made("é", "é2"))
	b.wantFolder("the first call, again", first.Held(), "c1", "b=b2 é=é2")
	b.finish(first, "x")
	other := b.inSession("other")
	b.make(other.Held(), "c1", made("b", "not theirs"))

	second := b.inSession("s")
	b.wantFolder("the next run", second.Held(), "c1", "B=B1 a/z=az1 b=b2 é=é2")
	b.remove(second.Held(), "c1", "b", "B", "never was there")
	b.wantFolder("the call that removed", second.Held(), "c1", "B=B1 a/z=az1 b=b2 é=é2")
	b.wantFolder("the call after", second.Held(), "c2", "a/z=az1 é=é2")
	b.make(second.Held(), "c2", made("b", "b3"), made("", "no name"))
	b.wantFolder("and after", second.Held(), "c3", "=no name a/z=az1 b=b3 é=é2")
	b.wantFolder("what is made anew", second.Held(), "c2", "a/z=az1 é=é2")
	b.finish(second, "x")

	b.exec(`UPDATE runs SET expires_at = clock_timestamp(), sweep_after = clock_timestamp() WHERE id = $1`, first.RunID)
	if n, err := b.s.Sessions.DeleteExpired(t.Context(), 9); err != nil || n != 1 {
		t.Errorf("%d, %v", n, err)
	}
	third := b.inSession("s")
	b.wantFolder("of an expired run whose session lives", third.Held(), "c", "=no name a/z=az1 b=b3 é=é2")
	for id := range strings.FieldsSeq(b.text(`SELECT string_agg(id, ' ') FROM files WHERE hash IS NULL`)) {
		_, _, err := b.s.Blobs.OpenFile(t.Context(), b.org, id)
		wantCode(t, err, apierr.NotFound)
	}
}

// An attempt that takes over a run repeats the earlier attempt's call. The files that the earlier
// attempt stored for the call are removed, and the earlier attempt can store no more files.
func TestARepeatedCallReplacesItsOwn(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	stale := b.claimedRun()
	before := b.make(stale, "c", made("a", "same"), made("b", "b1"), made("c", "c1"), made("d", "shared"))
	other := b.make(stale, "other", made("x", "shared"))[0]
	now := b.requeueAndClaim(stale.RunID).Held()
	after := b.make(now, "c", made("e", "e2"), made("b", "b2"), made("a", "same"))
	if after[2].ID != before[0].ID || after[1].ID == before[1].ID {
		t.Errorf("%+v became %+v", before, after)
	}
	b.wantStored("after the second attempt", "4 contents 4 chunks 4 files")
	b.wantFolder("then", now, "d", "a=same b=b2 e=e2 x=shared")
	for _, gone := range before[1:] {
		_, _, err := b.s.Blobs.OpenFile(t.Context(), b.org, gone.ID)
		wantCode(t, err, apierr.NotFound)
	}

	for _, files := range [][]blobdb.NewFile{{made("a", "never"), made("big", string(randomBytes(mib+1, 1)))}, {made("a", "same")}, nil} {
		if out, kept, err := b.s.Blobs.KeepFiles(t.Context(), stale, "c", files, []string{"x"}, 0); err != nil || kept || out != nil {
			t.Errorf("a stale attempt kept %+v, %v, %v", out, kept, err)
		}
	}
	if _, kept, err := b.s.Blobs.SessionFiles(t.Context(), stale, "c"); err != nil || kept {
		t.Errorf("a stale attempt saw files: %v", err)
	}
	b.wantStored("after the stale attempt", "4 contents 4 chunks 4 files")
	b.remove(now, "c")
	b.wantStored("in the end", "1 contents 1 chunks 1 files")
	if b.content(other.ID) != "shared" {
		t.Error("the other call lost its content")
	}
}

// If the same call runs twice concurrently, all files of one execution remain and none of the
// other.
func TestTheSameCallTwiceConcurrently(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	held := b.claimedRun()
	for n := range 10 {
		keep := func(which string) func() (bool, error) {
			return func() (bool, error) {
				files := []blobdb.NewFile{made("a", fmt.Sprint(which, n)), made(which, "1"), made(which+which, "2")}
				_, kept, err := b.s.Blobs.KeepFiles(t.Context(), held, "c", files, []string{"z" + which}, 0)
				return kept, err
			}
		}
		if done := race(t, keep("x"), keep("y"), keep("x"), keep("y")); slices.Contains(done, false) {
			t.Errorf("kept: %v", done)
		}
		if got := b.folder(held, "d"); got != fmt.Sprintf("a=x%d x=1 xx=2", n) && got != fmt.Sprintf("a=y%d y=1 yy=2", n) {
			t.Errorf("what is left: %s", got)
		}
		b.wantStored("each time", "3 contents 3 chunks 4 files")
	}
}

// If two organizations store the same content, it is stored twice.
func TestFilesOfOrganizationsNeverMeet(t *testing.T) {
	t.Parallel()
	a := newTestEnv(t)
	b := newEnvOn(t, a.s, a.raw, "bob@example.com")
	heldByA, heldByB := a.inSession("s"), b.inSession("s")
	ofA, ofB := a.make(heldByA.Held(), "c", made("x", "same"))[0], b.make(heldByB.Held(), "c", made("x", "same"))[0]
	_, _, err := b.s.Blobs.OpenFile(t.Context(), b.org, ofA.ID)
	wantCode(t, err, apierr.NotFound)
	a.wantStored("of both", "2 contents 2 chunks 2 files")
	foreign := heldByA.Held()
	foreign.OrganizationID = b.org
	if _, kept, err := b.s.Blobs.KeepFiles(t.Context(), foreign, "c", []blobdb.NewFile{made("x", "other")}, nil, 0); err != nil || kept {
		t.Errorf("kept for another organization's run: %v", err)
	}
	if _, kept, err := b.s.Blobs.SessionFiles(t.Context(), foreign, "d"); err != nil || kept {
		t.Errorf("another organization's files: %v", err)
	}
	a.exec(`UPDATE blob_chunks SET data = 'tampered' WHERE org_id = $1`, a.org)
	a.remove(heldByA.Held(), "c")
	a.wantStored("of one", "1 contents 1 chunks 1 files")
	if got := b.content(ofB.ID); got != "same" {
		t.Errorf("content %q", got)
	}
}

// The size of an organization's files is the number of bytes in their contents plus 4 KiB per file.
// Equal contents count once. The size is exact under concurrency.
func TestAnOrganizationsFilesAreBounded(t *testing.T) {
	t.Parallel()
	const row = 4096
	a := newTestEnv(t)
	b := newEnvOn(t, a.s, a.raw, "bob@example.com")
	held := a.claimedRun()
	keep := func(maximum int64, call string, files ...blobdb.NewFile) func() (bool, error) {
		return func() (bool, error) {
			_, kept, err := a.s.Blobs.KeepFiles(t.Context(), held, call, files, []string{"gone"}, maximum)
			return kept, err
		}
	}
	b.make(b.claimedRun(), "c", made("x", strings.Repeat("b", 100)))
	if kept, err := keep(10+4*row, "c1", made("a", "12345"), made("b", "12345"), made("c", "abcde"))(); err != nil || !kept {
		t.Fatalf("10 bytes in 4 files, one of them removed: %v, %v", kept, err)
	}
	for what, try := range map[string]func() (bool, error){
		"a byte more": keep(10+6*row, "c2", made("d", "x")), "a byte more among others": keep(10+7*row, "c2", made("d", "x"), made("a", "12345")),
		"a file of what is there": keep(9+6*row, "c2", made("e", "abcde")), "an empty file": keep(9+6*row, "c2", made("f", "")), "a removed one": keep(9+5*row, "c2"),
		"a file more of the call": keep(9+5*row, "c1", made("a", "12345"), made("b", "12345"), made("c", "abcde"), made("d", "abcde")),
		"another content of it":   keep(14+2*row, "c1", made("a", "54321")),
	} {
		if kept, err := try(); kept || !errors.Is(err, blobdb.ErrFilesFull) {
			t.Errorf("%s: %v, %v", what, kept, err)
		}
		a.wantStored(what, "3 contents 3 chunks 5 files") // the files of both organizations
	}
	for n, try := range []func() (bool, error){
		keep(10+6*row, "c2", made("e", "abcde")), keep(10+8*row, "c4", made("f", "")), keep(3, "c1", made("a", "12345"), made("c", "abcde")), keep(0, "c5", made("g", "xyz")),
	} {
		if kept, err := try(); err != nil || !kept {
			t.Errorf("what there is room for, or is nothing more, or without a bound, %d: %v, %v", n, kept, err)
		}
	}
	var tries []func() (bool, error)
	refused := 0
	for n := range 12 { // before its commit, a call's contents count for concurrent calls, but its 4 KiB per file do not
		tries = append(tries, func() (bool, error) {
			content := strings.Repeat(fmt.Sprintf("%05d", n), 40_000)
			kept, err := keep(13+4*200_000+(9+2*12)*row, fmt.Sprint("r", n), made("n", content))()
			if errors.Is(err, blobdb.ErrFilesFull) {
				err = nil
			}
			return kept, err
		})
	}
	for _, kept := range race(t, tries...) {
		if !kept {
			refused++
		}
	}
	if n := a.text(`SELECT sum(bytes)::text FROM blobs WHERE org_id = $1`, a.org); n != "800013" || refused != 8 {
		t.Errorf("%s bytes are kept, %d were refused", n, refused)
	}
}

// A session has at most a thousand file names. Further names are rejected until some are removed;
// existing files may change.
func TestASessionsNamesAreBounded(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	c := b.inSession("s")
	var files []blobdb.NewFile
	for n := range 999 {
		files = append(files, made(fmt.Sprintf("%03d", n), ""))
	}
	b.make(c.Held(), "c1", files...)
	b.make(c.Held(), "c2", made("000", "new"))
	keep := func(call string, removed []string, made ...blobdb.NewFile) error {
		_, kept, err := b.s.Blobs.KeepFiles(t.Context(), c.Held(), call, made, removed, 0)
		if kept == (err != nil) {
			t.Errorf("%v, %v", kept, err)
		}
		return err
	}
	for _, full := range []error{
		keep("c3", nil, made("a", ""), made("b", "")), keep("c3", []string{"never was"}, made("a", ""), made("b", ""), made("001", "")),
		keep("c1", nil, append(files, made("a", ""), made("b", ""))...),
	} {
		if !errors.Is(full, blobdb.ErrFilesFull) {
			t.Errorf("1001 names: %v", full)
		}
	}
	b.must(keep("c3", nil, made("a", "")))
	b.must(keep("c4", nil, made("a", "1"), made("001", "1")))
	b.must(keep("c5", []string{"002"}, made("b", "")))
	if err := keep("c6", nil, made("002", "")); !errors.Is(err, blobdb.ErrFilesFull) {
		t.Errorf("1001 names: %v", err)
	}
	b.must(keep("c6", []string{"003", "004"}))
	b.must(keep("c7", nil, made("c", "")))

	// If the run that removed a file is itself removed, the file appears again. If several files
	// have the same name, the newest file is returned.
	b.exec(`DELETE FROM files WHERE hash IS NULL`)
	found, _, err := b.s.Blobs.SessionFiles(t.Context(), c.Held(), "c8")
	if err != nil || len(found) != 1000 || found[0].Name != "000" || found[1].Name != "001" || found[2].Name != "004" || found[999].Name != "c" {
		t.Errorf("%d files, %v", len(found), err)
	}
	b.must(keep("c8", nil, made("b", "")))
}

// Several small files are read with one statement. The requested ids may be in any order and may be
// repeated.
func TestReadingSmallFilesTogether(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	held := b.claimedRun()
	whole := blobdb.NewFile{Name: "whole", Content: randomBytes(blobdb.SmallFile, 1)}
	out := b.make(held, "c", made("a", "A"), made("empty", ""), whole, blobdb.NewFile{Name: "large", Content: randomBytes(blobdb.SmallFile+1, 1)})
	got, err := b.s.Blobs.FileContents(t.Context(), b.org, []string{out[2].ID, out[0].ID, out[1].ID, out[0].ID})
	if err != nil || len(got) != 4 || !bytes.Equal(got[0], whole.Content) || string(got[1]) != "A" || len(got[2]) != 0 || string(got[3]) != "A" {
		t.Errorf("%d contents, %v", len(got), err)
	}
	if got, err := b.s.Blobs.FileContents(t.Context(), b.org, nil); err != nil || len(got) != 0 {
		t.Errorf("of none: %v, %v", got, err)
	}
	for what, ids := range map[string][]string{"large": {out[0].ID, out[3].ID}, "missing": {out[0].ID, id.New(id.File)}} {
		_, err := b.s.Blobs.FileContents(t.Context(), b.org, ids)
		t.Log(what)
		wantCode(t, err, apierr.NotFound)
	}
	_, err = b.s.Blobs.FileContents(t.Context(), "org_other", []string{out[0].ID})
	wantCode(t, err, apierr.NotFound)
	b.exec(`DELETE FROM blob_chunks`)
	_, err = b.s.Blobs.FileContents(t.Context(), b.org, []string{out[0].ID})
	wantCode(t, err, apierr.NotFound)
}

// The contents of a hundred small files are written in one transaction. Larger contents are written
// in several transactions of at most 1 MiB each.
func TestSmallContentsAreWrittenTogether(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	held := b.claimedRun()
	transactions := func(call string, files ...blobdb.NewFile) string {
		b.make(held, call, files...)
		return b.text(`SELECT count(DISTINCT c.xmin::text)::text FROM blob_chunks c JOIN files f USING (org_id, hash) WHERE call_id = $1`, call)
	}
	var small []blobdb.NewFile
	for n := range 100 {
		small = append(small, made(fmt.Sprint(n), strings.Repeat(fmt.Sprint(n), 1000)))
	}
	if n := transactions("small", small...); n != "1" {
		t.Errorf("small contents were written in %s transactions", n)
	}
	if n := b.text(`SELECT count(DISTINCT t)::text FROM (SELECT c.xmin::text t FROM blob_chunks c UNION SELECT b.xmin::text FROM blobs b) x`); n != "1" {
		t.Errorf("and entered in others, %s in all", n)
	}
	large := blobdb.NewFile{Name: "large", Content: randomBytes(3*mib+1, 1)}
	if n := transactions("both", append([]blobdb.NewFile{large}, made("x", "x"), made("y", "y"))...); n != "4" && n != "5" {
		t.Errorf("3 MiB and a bit were written in %s transactions", n)
	}
	if n := b.text(`SELECT count(*)::text FROM (SELECT sum(length(data)) AS n FROM blob_chunks GROUP BY xmin::text) x WHERE n > 1048576`); n != "0" {
		t.Errorf("%s of them with more than 1 MiB", n)
	}
}

// Concurrent additions to the contents of an organization are counted one after the other. Each
// count includes the bytes of the previous additions.
func TestQuotasAreExactUnderConcurrency(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	held := b.claimedRun()
	const adding = `WITH before AS MATERIALIZED (SELECT pg_advisory_xact_lock(hashtextextended('blobs ' || $1, 0)))
		INSERT INTO blobs (org_id, hash, bytes) SELECT $1, sha256(''), 6 FROM before`
	b.during("adding", adding, b.org, waitsForLock, func() {
		_, kept, err := b.s.Blobs.KeepFiles(t.Context(), held, "c", []blobdb.NewFile{made("x", "12345")}, nil, 10+4096)
		if kept || !errors.Is(err, blobdb.ErrFilesFull) {
			t.Errorf("11 of 10 bytes: %v, %v", kept, err)
		}
	})
	b.wantStored("then", "1 contents 0 chunks 0 files")
}

// A file's content can be read from any position. Only the pieces that are needed are loaded.
func TestReadingParts(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	content := randomBytes(3*mib+5, 3)
	file := b.make(b.claimedRun(), "c", blobdb.NewFile{Name: "x", Content: content})[0]
	_, r, err := b.s.Blobs.OpenFile(t.Context(), b.org, file.ID)
	if err != nil {
		t.Fatal(err)
	}
	want := bytes.NewReader(content)
	buf, wantBuf := make([]byte, 1000), make([]byte, 1000)
	for n, seek := range []struct {
		offset int64
		whence int
	}{
		{0, io.SeekEnd},
		{0, io.SeekStart},
		{mib - 10, io.SeekStart},
		{mib, io.SeekCurrent},
		{-1, io.SeekEnd},
		{-5, io.SeekCurrent},
		{-mib, io.SeekEnd},
		{-1, io.SeekStart},
		{-9 * mib, io.SeekCurrent},
		{0, 7},
		{9 * mib, io.SeekEnd},
		{mib, io.SeekStart},
		{2 * mib, io.SeekStart},
	} {
		at, err := r.Seek(seek.offset, seek.whence)
		wantAt, wantErr := want.Seek(seek.offset, seek.whence)
		if at != wantAt || (err != nil) != (wantErr != nil) {
			t.Errorf("%d: at %d, %v; want %d, %v", n, at, err, wantAt, wantErr)
		}
		got, err := io.ReadFull(r, buf)
		wantGot, wantErr := io.ReadFull(want, wantBuf)
		if got != wantGot || err != wantErr || !bytes.Equal(buf[:got], wantBuf[:wantGot]) { //nolint:errorlint // readers return exactly these values
			t.Errorf("%d: %d bytes, %v; want %d, %v", n, got, err, wantGot, wantErr)
		}
	}
	if n, err := r.Read(nil); n != 0 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	b.exec(`DELETE FROM blob_chunks WHERE n = 1`)
	b.exec(`UPDATE blob_chunks SET data = 'x' WHERE n = 2`)
	if _, err := r.Seek(mib-3, io.SeekStart); err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(r)
	wantCode(t, err, apierr.NotFound)
	if !bytes.Equal(got, content[mib-3:mib]) {
		t.Errorf("%d bytes before what is gone", len(got))
	}
	if _, err := r.Seek(2*mib, io.SeekStart); err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(r); len(got) != 0 || !strings.Contains(fmt.Sprint(err), "chunk 16 has 1 bytes") {
		t.Errorf("of a broken content: %d bytes, %v", len(got), err)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
}

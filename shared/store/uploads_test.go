package store_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"runtime"
	"strings"
	"sync"
	"testing"

	"parley/shared/domain"
	"parley/shared/id"
	"parley/shared/secrets"
	"parley/shared/store"
	"parley/shared/store/blobdb"
	"parley/shared/store/knowledgedb"
	"parley/shared/store/sealdb"
	"parley/shared/testkit"
)

func newSealer(t *testing.T, keys string) *secrets.Box {
	t.Helper()
	box, err := secrets.NewBox(keys)
	if err != nil {
		t.Fatal(err)
	}
	return box
}

var (
	oneKey     = strings.Repeat("0a", 32)
	anotherKey = strings.Repeat("0b", 32)
)

// slowly is a reader that returns a few bytes at a time. After the last byte it returns err.
type slowly struct {
	from  io.Reader
	at    int // number of bytes read so far
	err   error
	after func(read int)
}

func (s *slowly) Read(p []byte) (int, error) {
	n, err := s.from.Read(p[:min(len(p), 100_001)])
	if s.at += n; s.after != nil {
		s.after(s.at)
	}
	if errors.Is(err, io.EOF) && s.err != nil {
		err = s.err
	}
	return n, err
}

func (b *testEnv) upload(content []byte) blobdb.Upload {
	b.Helper()
	up, err := b.s.Blobs.Upload(b.Context(), b.org, &slowly{from: bytes.NewReader(content)}, 1<<30)
	if err != nil {
		b.Fatalf("uploading: %v", err)
	}
	if sum := sha256.Sum256(content); !bytes.Equal(up.Hash, sum[:]) || up.Bytes != int64(len(content)) {
		b.Fatalf("%d bytes were uploaded as %x of %d", len(content), up.Hash, up.Bytes)
	}
	return up
}

// document adds a document with the content. The first bytes of the content are the document's
// name.
func (b *testEnv) document(content []byte) domain.Document {
	b.Helper()
	up := b.upload(content)
	return b.add(knowledgedb.NewDocument{Name: "x.txt", Content: &up})[0].Document
}

func (b *testEnv) add(docs ...knowledgedb.NewDocument) []knowledgedb.QueuedDocument {
	b.Helper()
	for i := range docs {
		docs[i].ID, docs[i].CreatedBy = id.New(id.Document), "usr_x"
	}
	out, err := b.s.Knowledge.AddDocuments(b.Context(), b.org, docs, knowledgedb.DocumentLimits{})
	if err != nil || len(out) != len(docs) {
		b.Fatalf("adding documents: %+v, %v", out, err)
	}
	return out
}

// original reads the original file of a document.
func original(ctx context.Context, s *store.Store, org, id string) ([]byte, error) {
	_, r, err := s.Knowledge.OpenDocument(ctx, org, id)
	if err != nil {
		return nil, err
	}
	defer func() { _ = r.Close() }()
	return io.ReadAll(r)
}

func (b *testEnv) wantOriginal(id string, want []byte) {
	b.Helper()
	if got, err := original(b.Context(), b.s, b.org, id); err != nil || !bytes.Equal(got, want) {
		b.Errorf("%d bytes, %v; want %d", len(got), err, len(want))
	}
}

func TestUploadsStoreTheBytesRead(t *testing.T) {
	t.Parallel()
	for _, sealed := range []bool{false, true} {
		b := newTestEnv(t)
		if sealed {
			b.s.Seals.SealContents(newSealer(t, oneKey))
		}
		for n, size := range []int{0, 1, 131071, 131072, 131073, mib - 1, mib, mib + 1, 2 * mib, 3*mib + 5} {
			content := randomBytes(size, byte(n))
			doc := b.document(content)
			b.wantOriginal(doc.ID, content)
			b.wantOriginal(b.document(content).ID, content)
			_, r, err := b.s.Knowledge.OpenDocument(t.Context(), b.org, doc.ID)
			if err != nil {
				t.Fatal(err)
			}
			from := size * 2 / 3
			if _, err := r.Seek(int64(from), io.SeekStart); err != nil {
				t.Fatal(err)
			}
			if rest, err := io.ReadAll(r); err != nil || !bytes.Equal(rest, content[from:]) {
				t.Errorf("from %d of %d: %d bytes, %v", from, size, len(rest), err)
			}
		}
		b.wantStored("sealed or not", "10 contents 14 chunks 0 files")
		plain := b.text(`SELECT count(*)::text FROM blob_chunks WHERE sealed = 0`)
		if want := map[bool]string{true: "0", false: "14"}[sealed]; plain != want {
			t.Errorf("%s chunks are as they were, want %s", plain, want)
		}
	}
}

func TestUploadsOfOrganizationsNeverMeet(t *testing.T) {
	t.Parallel()
	a := newTestEnv(t)
	b := newEnvOn(t, a.s, a.raw, "bob@example.com")
	content := randomBytes(mib+7, 1)
	one, other := a.document(content), b.document(content)
	a.wantStored("both", "2 contents 4 chunks 0 files")
	if one.ID == other.ID {
		t.Error("two organizations have one document")
	}
	if _, err := a.s.Knowledge.DeleteDocument(t.Context(), a.org, one.ID); err != nil {
		t.Fatal(err)
	}
	b.wantOriginal(other.ID, content)
	a.wantStored("one", "1 contents 2 chunks 0 files")
}

func TestUploadsThatFailLeaveNothing(t *testing.T) {
	t.Parallel()
	own := errors.New("the reader's own")
	for _, sealed := range []bool{false, true} {
		b := newTestEnv(t)
		if sealed {
			b.s.Seals.SealContents(newSealer(t, oneKey))
		}
		for what, c := range map[string]struct {
			size    int
			maximum int64
			end     error
			want    error
		}{
			"of a reader, small":  {size: 10, maximum: mib, end: own, want: own},
			"of a reader, large":  {size: 3 * mib, maximum: 9 * mib, end: own, want: own},
			"a body cut off":      {size: 2*mib + 1, maximum: 9 * mib, end: io.ErrUnexpectedEOF, want: io.ErrUnexpectedEOF},
			"a small one cut off": {size: 1, maximum: 9 * mib, end: io.ErrUnexpectedEOF, want: io.ErrUnexpectedEOF},
			"one too many":        {size: 11, maximum: 10, want: blobdb.ErrTooLarge},
			"too large":           {size: 2*mib + 1, maximum: 2 * mib, want: blobdb.ErrTooLarge},
		} {
			_, err := b.s.Blobs.Upload(t.Context(), b.org, &slowly{from: bytes.NewReader(randomBytes(c.size, 1)), err: c.end}, c.maximum)
			if err != c.want && c.want != blobdb.ErrTooLarge || !errors.Is(err, c.want) { //nolint:errorlint // not wrapped
				t.Errorf("%s: %v", what, err)
			}
			b.wantStored(what, "0 contents 0 chunks 0 files")
		}
		ctx, cancel := context.WithCancel(t.Context())
		_, err := b.s.Blobs.Upload(ctx, b.org, &slowly{from: bytes.NewReader(randomBytes(3*mib, 1)), after: func(read int) {
			if read > 2*mib {
				cancel()
			}
		}}, 1<<30)
		if !errors.Is(err, context.Canceled) {
			t.Errorf("cancelled: %v", err)
		}
		b.wantStored("cancelled", "0 contents 0 chunks 0 files")
		if _, err := b.s.Blobs.Upload(t.Context(), b.org, iotestNothing{}, 9); !errors.Is(err, io.ErrNoProgress) {
			t.Errorf("upload from a reader without progress: %v", err)
		}
	}
}

type iotestNothing struct{}

func (iotestNothing) Read([]byte) (int, error) { return 0, nil }

// An upload that nothing refers to is removed after an hour.
func TestUploadsWithoutDocumentsAreSwept(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	b.upload(randomBytes(2*mib, 1))
	b.upload(randomBytes(10, 2))
	kept := b.document(randomBytes(2*mib, 3))
	b.exec(`UPDATE blobs SET sweep_after = clock_timestamp()`)
	if n, err := b.s.Blobs.PruneBlobs(t.Context(), 9); err != nil || n != 3 {
		t.Errorf("checked %d, %v", n, err)
	}
	b.wantStored("swept", "1 contents 2 chunks 0 files")
	b.wantOriginal(kept.ID, randomBytes(2*mib, 3))
}

func TestTheSameContentUploadedConcurrentlyIsStoredOnce(t *testing.T) {
	t.Parallel()
	for _, sealed := range []bool{false, true} {
		b := newTestEnv(t)
		if sealed {
			b.s.Seals.SealContents(newSealer(t, oneKey))
		}
		content := randomBytes(3*mib+9, 1)
		ids := make([]string, 6)
		var all sync.WaitGroup
		for i := range ids {
			all.Go(func() {
				if i%3 == 2 { // the same content is also a file of a run
					b.make(b.claimedRun(), "c", blobdb.NewFile{Name: "x", Content: content})
					return
				}
				ids[i] = b.document(content).ID
			})
		}
		all.Wait()
		for _, i := range []int{1, 3, 4} {
			if ids[i] != ids[0] {
				t.Errorf("documents %v", ids)
			}
		}
		b.wantOriginal(ids[0], content)
		b.wantStored("at once", "1 contents 4 chunks 2 files")
	}
}

// No content is stored in plain text. A process that has the keys can read it, and a process
// without the keys gets an error.
func TestSealedContents(t *testing.T) {
	t.Parallel()
	dsn := testkit.Postgres(t)
	s, raw := openAt(t, dsn)
	b := newEnvOn(t, s, raw, "ada@example.com")
	marked := bytes.Repeat([]byte("xanthic-canary "), 200_000)
	before := b.document([]byte("kept before"))
	s.Seals.SealContents(newSealer(t, oneKey))
	doc := b.document(marked)
	files := b.make(b.claimedRun(), "c", made("small", "xanthic-canary"), made("empty", ""), blobdb.NewFile{Name: "large", Content: marked})
	if n := b.text(`SELECT count(*)::text FROM blob_chunks WHERE position('canary'::bytea IN data) > 0`); n != "0" {
		t.Errorf("%s chunks show what they hold", n)
	}
	read := func(what string, s *store.Store, want error) {
		t.Helper()
		if got, err := original(t.Context(), s, b.org, doc.ID); !errors.Is(err, want) || err == nil && !bytes.Equal(got, marked) {
			t.Errorf("%s: document of %d bytes, %v", what, len(got), err)
		}
		small, err := s.Blobs.FileContents(t.Context(), b.org, []string{files[0].ID, files[1].ID})
		if !errors.Is(err, want) || err == nil && (string(small[0]) != "xanthic-canary" || len(small[1]) != 0) {
			t.Errorf("%s: small files %q, %v", what, small, err)
		}
		if got, err := original(t.Context(), s, b.org, before.ID); err != nil || string(got) != "kept before" {
			t.Errorf("%s: what was kept before: %q, %v", what, got, err)
		}
	}
	open := func() *store.Store { other, _ := openAt(t, dsn); return other }
	read("sealing", s, nil)
	if b.content(files[2].ID) != string(marked) || b.content(files[0].ID) != "xanthic-canary" {
		t.Error("files are not what they were")
	}
	read("without a key", open(), sealdb.ErrContentSealed)
	opening, rotated, wrong := open(), open(), open()
	opening.Seals.OpenContents(newSealer(t, oneKey))
	read("opening only", opening, nil)
	rotated.Seals.SealContents(newSealer(t, anotherKey+","+oneKey))
	read("rotated", rotated, nil)
	wrong.Seals.SealContents(newSealer(t, anotherKey))
	read("another key", wrong, secrets.ErrSealed)

	// Sealed data that was copied to another location cannot be opened.
	b.exec(`UPDATE blob_chunks c SET data = o.data FROM blob_chunks o WHERE c.hash = o.hash AND c.n = 1 AND o.n = 0`)
	if _, err := original(t.Context(), s, b.org, doc.ID); !errors.Is(err, secrets.ErrSealed) {
		t.Errorf("one chunk in place of another: %v", err)
	}
}

// A blob may be partly sealed, because processes with different settings may have written its
// chunks.
func TestContentsSealedInPart(t *testing.T) {
	t.Parallel()
	dsn := testkit.Postgres(t)
	s, raw := openAt(t, dsn)
	b := newEnvOn(t, s, raw, "ada@example.com")
	content := randomBytes(4*mib, 1)
	doc := b.document(content)
	s.Seals.SealContents(newSealer(t, oneKey))
	b.exec(`DELETE FROM blob_chunks WHERE n > 1`) // simulates another process that is still writing
	if again := b.document(content); again.ID != doc.ID {
		t.Errorf("a second document of the same bytes: %+v", again)
	}
	if n := b.text(`SELECT count(*) FILTER (WHERE sealed > 0) || ' of ' || count(*) FROM blob_chunks`); n != "2 of 4" {
		t.Errorf("sealed %s", n)
	}
	b.wantOriginal(doc.ID, content)
}

// The test does not run in parallel, because it would count the allocations of other tests.
func TestALargeUploadIsNotInMemory(t *testing.T) { //nolint:paralleltest // see above
	b := newTestEnv(t)
	b.s.Seals.SealContents(newSealer(t, oneKey))
	content := randomBytes(24*mib, 1)
	live := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before, maximum := live(), uint64(0)
	up, err := b.s.Blobs.Upload(t.Context(), b.org, &slowly{from: bytes.NewReader(content), after: func(read int) {
		if read%mib < 100_001 { // measures from time to time
			maximum = max(maximum, live())
		}
	}}, 1<<30)
	if err != nil || up.Bytes != int64(len(content)) {
		t.Fatalf("%+v, %v", up, err)
	}
	runtime.KeepAlive(content)
	if maximum > before+2*mib {
		t.Errorf("%d KiB were live while reading", (maximum-before)>>10)
	}
}

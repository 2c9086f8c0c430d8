package store_test

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"

	"parley/shared/apierr"
	"parley/shared/contract"
	"parley/shared/domain"
	"parley/shared/id"
	"parley/shared/store/blobdb"
	"parley/shared/store/rundb"
	"parley/shared/store/sessiondb"
)

// uploaded stores an upload of a user that may be attached only in the session "s".
func (b *testEnv) uploaded(name, content string) blobdb.NewUpload {
	b.Helper()
	stored, err := b.s.Blobs.Upload(b.Context(), b.org, strings.NewReader(content), 20*mib)
	b.must(err)
	u := blobdb.NewUpload{ID: id.New(id.File), Principal: "usr_1", SessionID: "s", Name: name, MIMEType: "text/plain", Content: stored}
	b.must(b.s.Blobs.AddUpload(b.Context(), b.org, u, 0))
	return u
}

// attached accepts a run with attachments in a session of a user.
func (b *testEnv) attached(session string, uploads ...blobdb.NewUpload) (runID string, ids []string) {
	b.Helper()
	run := b.run("", session)
	files := make([]blobdb.NewAttachment, len(uploads))
	for i, u := range uploads {
		files[i] = blobdb.NewAttachment{
			Attachment: domain.Attachment{FileID: id.New(id.File), Name: u.Name, MediaType: u.MIMEType, Bytes: u.Content.Bytes}, Hash: u.Content.Hash,
		}
		ids = append(ids, files[i].FileID)
	}
	b.must(b.s.Blobs.LinkAttachments(b.Context(), b.org, run.ID, files, 0))
	return b.accept(wideWindow, run)[0].Run.Run.ID, ids
}

// A run gets its own copies of the attached files, which are kept longer than the uploads. Programs
// that agents run in the session find these copies.
func TestAttachmentsAreFilesOfTheRun(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	a, c := b.uploaded("a.txt", "first"), b.uploaded("c.txt", "second")
	runID, ids := b.attached("s", a, c)
	b.wantStored("after acceptance", "2 contents 2 chunks 4 files")
	held := b.mustClaim(runID).Held()

	b.wantFolder("before the worker takes them", held, "x", "")
	found, kept, err := b.s.Blobs.HoldAttachments(t.Context(), held, append(ids, id.New(id.File), a.ID))
	if err != nil || !kept || len(found) != 2 || found[0].Name != "a.txt" || found[1].ID != ids[1] || found[0].Prepared != "" || found[0].RunID != runID {
		t.Fatalf("%+v, %v, %v", found, kept, err)
	}
	b.wantFolder("a program", held, "x", "a.txt=first c.txt=second")

	// The result of a worker's preparation replaces the attachment's content.
	if kept, err = b.s.Blobs.SetPrepared(t.Context(), held, ids[0], blobdb.Prepared{Kind: "image/png", TextID: "src_1", Image: []byte("converted")}); err != nil || !kept {
		t.Fatal(kept, err)
	}
	if kept, err = b.s.Blobs.SetPrepared(t.Context(), held, ids[1], blobdb.Prepared{Kind: blobdb.PreparedText, TextID: "src_2"}); err != nil || !kept {
		t.Fatal(kept, err)
	}
	found, _, err = b.s.Blobs.HoldAttachments(t.Context(), held, ids)
	if err != nil || found[0].Prepared != "image/png" || found[0].MIMEType != "image/png" || found[0].TextID != "src_1" || found[1].Prepared != "text" || found[1].TextID != "src_2" {
		t.Errorf("%+v, %v", found, err)
	}
	if b.content(ids[0]) != "converted" || b.content(ids[1]) != "second" || b.content(a.ID) != "first" {
		t.Error("another content")
	}
	for _, fileID := range []string{a.ID, id.New(id.File)} { // neither file is an attachment of this run
		if kept, err = b.s.Blobs.SetPrepared(t.Context(), held, fileID, blobdb.Prepared{Kind: "image/png", Image: []byte("x")}); err != nil || kept {
			t.Error(kept, err)
		}
	}

	b.exec(`UPDATE files SET sweep_after = now() WHERE sweep_after IS NOT NULL`)
	if n, err := b.s.Blobs.PruneUploads(t.Context(), 9); err != nil || n != 2 {
		t.Error(n, err)
	}
	if _, err := b.s.Blobs.AttachableFile(t.Context(), b.org, a.ID); apierr.CodeFor(err) != apierr.NotFound {
		t.Error(err)
	}
	b.wantFolder("after the uploads", held, "x", "a.txt=converted c.txt=second")
	stale := held
	stale.Fence--
	if found, kept, err = b.s.Blobs.HoldAttachments(t.Context(), stale, ids); err != nil || kept || len(found) > 0 {
		t.Errorf("a stale fence: %v, %v, %v", found, kept, err)
	}
}

// Attachments of a run that was never accepted are removed. Attachments of a waiting run are kept.
func TestPruneUploads(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	u := b.uploaded("a.txt", "text")
	waiting, ids := b.attached("s", u)
	never := []blobdb.NewAttachment{{Attachment: domain.Attachment{FileID: id.New(id.File), Name: "n", MediaType: "text/plain", Bytes: u.Content.Bytes}, Hash: u.Content.Hash}}
	b.must(b.s.Blobs.LinkAttachments(t.Context(), b.org, id.New(id.Run), never, 0))
	b.exec(`UPDATE files SET sweep_after = now() WHERE sweep_after IS NOT NULL`)
	if n, err := b.s.Blobs.PruneUploads(t.Context(), 9); err != nil || n != 3 {
		t.Error(n, err)
	}
	b.wantStored("after pruning", "1 contents 1 chunks 1 files")
	if n, err := b.s.Blobs.PruneUploads(t.Context(), 9); err != nil || n != 0 {
		t.Error(n, err)
	}
	held := b.mustClaim(waiting).Held()
	if found, kept, err := b.s.Blobs.HoldAttachments(t.Context(), held, ids); err != nil || !kept || len(found) != 1 {
		t.Error(found, kept, err)
	}

	// The attachments of a refused run are removed immediately.
	b.must(b.s.Blobs.LinkAttachments(t.Context(), b.org, never[0].Name, never, 0))
	b.must(b.s.Blobs.UnlinkAttachments(t.Context(), b.org, never[0].Name))
	b.wantStored("after unlinking", "1 contents 1 chunks 1 files")
}

// After a session was erased, neither its attachments nor the uploads for it remain.
func TestErasureCoversAttachments(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	mine, other := b.uploaded("a.txt", "mine"), b.uploaded("b.txt", "for another session")
	b.exec(`UPDATE files SET session_name = 'other' WHERE id = $1`, other.ID)
	runID, ids := b.attached("s", mine)
	b.exec(`UPDATE files SET principal = 'system' WHERE run_id = ''`)
	claimed := b.mustClaim(runID)
	_, _, err := b.s.Blobs.HoldAttachments(t.Context(), claimed.Held(), ids)
	b.must(err)
	b.finish(claimed, "done")
	name := sessiondb.SessionName{OrganizationID: b.org, TargetID: b.agent, SessionID: "s", Key: contract.Hash(b.org, b.agent, "s")}
	_, err = b.s.Sessions.EraseSession(t.Context(), name)
	b.must(err)
	b.wantStored("after erasure", "1 contents 1 chunks 1 files")
	if _, err := b.s.Blobs.AttachableFile(t.Context(), b.org, other.ID); err != nil {
		t.Error(err)
	}
}

func TestQuotaOfUploads(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	stored, err := b.s.Blobs.Upload(t.Context(), b.org, bytes.NewReader(randomBytes(1000, 1)), 20*mib)
	b.must(err)
	u := blobdb.NewUpload{ID: id.New(id.File), Principal: "usr_1", Name: "a", Content: stored}
	if err := b.s.Blobs.AddUpload(t.Context(), b.org, u, 5095); !errors.Is(err, blobdb.ErrFilesFull) {
		t.Error(err)
	}
	b.must(b.s.Blobs.AddUpload(t.Context(), b.org, u, 5096))
	file := []blobdb.NewAttachment{{Attachment: domain.Attachment{FileID: id.New(id.File), Name: "a", Bytes: stored.Bytes}, Hash: stored.Hash}}
	if err := b.s.Blobs.LinkAttachments(t.Context(), b.org, id.New(id.Run), file, 5096+4095); !errors.Is(err, blobdb.ErrFilesFull) {
		t.Error(err)
	}
	b.must(b.s.Blobs.LinkAttachments(t.Context(), b.org, id.New(id.Run), file, 5096+4096))
	file[0].Hash = randomBytes(32, 9)
	if err := b.s.Blobs.LinkAttachments(t.Context(), b.org, id.New(id.Run), file, 0); !errors.Is(err, blobdb.ErrBlobGone) {
		t.Error(err)
	}
}

// The uploads of one visitor are limited, and so are the files of all visitors of an organization.
// An upload of a visitor expires after an hour. The copy that a run attaches also counts among the
// files of visitors.
func TestQuotaOfVisitors(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	upload := func(principal, agentID string, seed byte, size int, maximum int64) (blobdb.NewUpload, error) {
		stored, err := b.s.Blobs.Upload(t.Context(), b.org, bytes.NewReader(randomBytes(size, seed)), 20*mib)
		b.must(err)
		u := blobdb.NewUpload{ID: id.New(id.File), Principal: principal, SessionID: "s", AgentID: agentID, Name: "a", Content: stored}
		return u, b.s.Blobs.AddUpload(t.Context(), b.org, u, maximum)
	}
	const quota = 4 * (3*(4096+1000) + 4096) // space for three uploads of visitors and an attachment
	first, err := upload("widget:id:ada", "ag_1", 1, 1000, quota)
	b.must(err)
	_, err = upload("widget:id:ada", "ag_1", 2, 1000, quota)
	b.must(err)
	_, err = upload("widget:id:bob", "ag_1", 3, 1000, quota)
	b.must(err)
	for who, want := range map[string]error{"widget:id:ada": blobdb.ErrFilesFull, "widget:id:new": blobdb.ErrFilesFull} {
		if _, err := upload(who, "ag_1", 4, 1000, quota); !errors.Is(err, want) {
			t.Errorf("%s: %v", who, err)
		}
	}
	if _, err = upload("usr_1", "", 4, 1000, quota); err != nil {
		t.Errorf("a member's upload beside the visitors': %v", err)
	}
	found, err := b.s.Blobs.AttachableFile(t.Context(), b.org, first.ID)
	if err != nil || found.AgentID != "ag_1" {
		t.Errorf("%+v, %v", found, err)
	}
	file := func(agentID string) []blobdb.NewAttachment {
		attachment := domain.Attachment{FileID: id.New(id.File), Name: "a", Bytes: first.Content.Bytes}
		return []blobdb.NewAttachment{{Attachment: attachment, Hash: first.Content.Hash, AgentID: agentID}}
	}
	b.must(b.s.Blobs.LinkAttachments(t.Context(), b.org, id.New(id.Run), file("ag_1"), quota))
	if err := b.s.Blobs.LinkAttachments(t.Context(), b.org, id.New(id.Run), file("ag_1"), quota); !errors.Is(err, blobdb.ErrFilesFull) {
		t.Errorf("a visitor's second attachment: %v", err)
	}
	b.must(b.s.Blobs.LinkAttachments(t.Context(), b.org, id.New(id.Run), file(""), quota))

	for n := range blobdb.VisitorUploads - 2 {
		if _, err := upload("widget:id:ada", "ag_1", byte(n+10), 1, 0); err != nil {
			t.Fatal(n, err)
		}
	}
	_, err = upload("widget:id:ada", "ag_1", 9, 1, 0)
	full, ok := errors.AsType[*blobdb.VisitorFullError](err)
	if !ok || full.Wait <= 0 || full.Wait > blobdb.VisitorUploadLife {
		t.Errorf("too many uploads: %v", err)
	}
	if err := b.s.Blobs.CheckVisitor(t.Context(), b.org, "widget:id:ada", 0); !errors.As(err, &full) {
		t.Error(err)
	}
	b.must(b.s.Blobs.CheckVisitor(t.Context(), b.org, "widget:id:bob", 0))
	b.exec(`UPDATE files SET bytes = $1 WHERE principal = 'widget:id:bob'`, blobdb.VisitorBytes)
	if _, err := upload("widget:id:bob", "ag_1", 9, 1, 0); !errors.As(err, &full) {
		t.Errorf("too many bytes: %v", err)
	}
	b.exec(`UPDATE files SET sweep_after = now() WHERE principal LIKE 'widget:%'`)
	b.must(b.s.Blobs.CheckVisitor(t.Context(), b.org, "widget:id:bob", 0))
}

// Lists show the attachments of each run, and a search finds a run by the names of its attachments.
func TestListsReadAttachments(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	var want []string
	for i, input := range []string{
		`{"message":"plain"}`, `{"attachments":[%s],"message":""}`, `{"unstored":true,"attachments":[%s],"message":"` + strings.Repeat("long ", 2000) + `","data":{}}`,
	} {
		run := b.run("", "")
		list := ""
		if strings.Contains(input, "%s") {
			list = `{"fileId":"file_1","name":"oil_leak.JPG","mediaType":"image/jpeg","bytes":1},{"fileId":"file_2","name":"` + strings.Repeat("n", 255) + `","mediaType":"text/plain","bytes":2}`
			input = strings.Replace(input, "%s", list, 1)
			want = append(want, run.ID)
		}
		run.Input = []byte(input)
		b.finish(b.mustClaim(b.accept(wideWindow, run)[0].Run.Run.ID), "A photo.")

		runs, err := b.s.Runs.ListRuns(t.Context(), b.org, rundb.RunFilter{}, 1)
		if err != nil || len(runs) != 1 || runs[0].Input == nil || (len(runs[0].Attachments) == 2) != (list != "") {
			t.Fatalf("run %d: %+v, %v", i, runs, err)
		}
		if list != "" && (runs[0].Attachments[0] != domain.Attachment{FileID: "file_1", Name: "oil_leak.JPG", MediaType: "image/jpeg", Bytes: 1}) {
			t.Errorf("run %d: %+v", i, runs[0].Attachments)
		}
	}
	slices.Reverse(want)
	b.indexRuns()
	if got := b.finds(rundb.RunFilter{Words: "oil leak jpg"}, 9); !slices.Equal(got, want) {
		t.Errorf("found %v, want %v", got, want)
	}
}

package store_test

import (
	"fmt"
	"testing"

	"parley/shared/domain"
	"parley/shared/store/knowledgedb"
	"parley/shared/testkit"
)

// boundStatements makes statements fail that change more than 1000 rows of terms or chunks. On a
// busy database, such a statement would exceed the statement timeout.
func (b *testEnv) boundStatements() {
	b.Helper()
	b.exec(`CREATE FUNCTION bounded() RETURNS trigger LANGUAGE plpgsql AS $$
		DECLARE n int := (SELECT count(*) FROM touched);
		BEGIN
		  IF n > 1000 THEN RAISE EXCEPTION 'a statement touches % rows of %', n, TG_TABLE_NAME; END IF;
		  RETURN NULL;
		END $$`)
	for trigger, on := range map[string]string{
		"counted": "INSERT ON knowledge_terms REFERENCING NEW", "changed": "UPDATE ON knowledge_terms REFERENCING NEW",
		"uncounted": "DELETE ON knowledge_terms REFERENCING OLD", "removed": "DELETE ON document_chunks REFERENCING OLD",
	} {
		b.exec(`CREATE TRIGGER ` + trigger + ` AFTER ` + on + ` TABLE AS touched FOR EACH STATEMENT EXECUTE FUNCTION bounded()`)
	}
}

// largeDocument returns a ready document with 1,200 chunks, 2,400 terms that no other document has
// and one shared term.
func (b *testEnv) largeDocument() string {
	b.Helper()
	var chunks []knowledgedb.NewChunk
	for n := range 1200 {
		chunks = append(chunks, chunkFor(n, fmt.Sprint("only", n), fmt.Sprint("own", n), "shared"))
	}
	return b.readyDocument(nil, chunks...)
}

func (b *testEnv) counts() string {
	b.Helper()
	return b.text(`SELECT coalesce(string_agg(term || ' ' || chunks || ' ' || rest, ', ' ORDER BY term), '') FROM knowledge_terms WHERE org_id = '` + b.org + `'`)
}

func TestALargeDocumentIsDeletedInBatches(t *testing.T) {
	t.Parallel()
	// boundStatements limits the statements by their rows. On a busy machine, a permitted statement
	// may exceed the statement timeout.
	s, raw := openAt(t, testkit.Postgres(t)+"&statement_timeout=120000")
	b := newEnvOn(t, s, raw, "ada@example.com")
	b.boundStatements()
	b.readyDocument(nil, chunkFor(0, "kept", "shared"))
	doc := b.largeDocument()
	b.exec(`CREATE SEQUENCE batches MAXVALUE 2`)
	b.exec(`CREATE FUNCTION interrupted() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$ BEGIN PERFORM nextval('batches'); RETURN NULL; END $$`)
	b.exec(`CREATE TRIGGER interrupted AFTER DELETE ON knowledge_terms FOR EACH STATEMENT EXECUTE FUNCTION interrupted()`)
	if _, err := b.s.Knowledge.DeleteDocument(t.Context(), b.org, doc); err == nil {
		t.Fatal("the third batch was not interrupted")
	}
	if d := b.wantDocument(doc, domain.DocumentFailed, "interrupted"); d.Error == nil || d.Error.Code != "deleting" {
		t.Errorf("%+v", d.Error)
	}
	b.wantFound("only7", "")
	b.wantFound("shared", "kept shared")
	// The counts of 2,000 of the document's 2,401 terms are removed. If the shared term is among
	// them, it stays in the index, because another document has it.
	if got := b.text(`SELECT count(*) FROM knowledge_terms WHERE term LIKE 'o%'`); got != "400" && got != "401" {
		t.Errorf("%s terms are counted after two batches", got)
	}

	b.exec(`DROP TRIGGER interrupted ON knowledge_terms`)
	b.deleteDocument(doc)
	if got := b.counts(); got != " 1 0, kept 1 0, shared 1 0" {
		t.Errorf("counted: %s", got)
	}
	if got := b.text(`SELECT count(*) FROM document_chunks`); got != "1" {
		t.Errorf("%s chunks", got)
	}
	b.wantFound("shared", "kept shared")
}

// If a large document is processed again, its term counts are removed in one transaction. Each of
// its statements changes a bounded number of rows.
func TestALargeDocumentIsReadAgain(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	b.boundStatements()
	doc := b.largeDocument()
	if _, err := b.s.Knowledge.RetryDocument(t.Context(), b.org, doc); err != nil {
		t.Fatal(err)
	}
	b.wantDocument(doc, domain.DocumentQueued, "read again")
	if got := b.counts(); got != "" {
		t.Errorf("counted: %s", got)
	}
}

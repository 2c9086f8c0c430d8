package store_test

import (
	"bytes"
	"errors"
	"testing"

	"parley/shared/secrets"
	"parley/shared/testkit"
)

// Equal bytes are sealed differently for each organization, each content and each piece. If a
// person with write access to the database copies a piece to another location, the piece cannot be
// read there.
func TestSealedContentsOpenOnlyAtTheirLocation(t *testing.T) {
	t.Parallel()
	const piece = 128 << 10 // size of the pieces that are sealed separately
	dsn := testkit.Postgres(t)
	s, raw := openAt(t, dsn)
	s.Seals.SealContents(newSealer(t, oneKey))
	b, other := newEnvOn(t, s, raw, "ada@example.com"), newEnvOn(t, s, raw, "bob@example.com")
	same := bytes.Repeat([]byte{7}, 2*piece) // two equal pieces
	doc := b.document(same)
	other.document(same)
	b.document(append(bytes.Repeat([]byte{7}, 2*piece-1), 8)) // a document that differs only in its last byte
	whole := b.text(`SELECT encode(data, 'hex') FROM blob_chunks WHERE org_id = $1 AND hash = sha256($2)`, b.org, same)
	for what, statement := range map[string]string{
		"another organization's": `UPDATE blob_chunks c SET data = o.data FROM blob_chunks o WHERE o.hash = c.hash AND o.org_id <> c.org_id`,
		"another content's": `UPDATE blob_chunks c SET data = o.data FROM blob_chunks o
			WHERE o.hash <> c.hash AND o.org_id = c.org_id AND octet_length(o.data) = octet_length(c.data)`,
		"its own, in another order": `UPDATE blob_chunks SET data = substring(data FROM octet_length(data) / 2 + 1) || substring(data FOR octet_length(data) / 2)`,
	} {
		b.exec(statement)
		if got, err := original(t.Context(), s, b.org, doc.ID); !errors.Is(err, secrets.ErrSealed) {
			t.Errorf("%s: read %d bytes, %v", what, len(got), err)
		}
		b.exec(`UPDATE blob_chunks SET data = decode($1, 'hex') WHERE org_id = $2 AND hash = sha256($3)`, whole, b.org, same)
		b.wantOriginal(doc.ID, same)
	}
}

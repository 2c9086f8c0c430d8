package blobdb

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"parley/shared/domain"
	"parley/shared/store/lease"
	"parley/shared/store/pg"
)

// sourcePrefix is the prefix of every source id.
const sourcePrefix = "src_"

// sourceID returns the id of a text with the given hash.
func sourceID(hash []byte) string { return sourcePrefix + hex.EncodeToString(hash) }

// hashFor returns the hash in the id of a source. It is the inverse of sourceID, and returns false
// for any other string.
func hashFor(id string) ([]byte, bool) {
	digits, found := strings.CutPrefix(id, sourcePrefix)
	hash, err := hex.DecodeString(digits)
	return hash, found && err == nil && len(hash) == sha256.Size && sourceID(hash) == id
}

// KeepSource stores a text that a run has read and returns its id. The text is kept until the last
// run that read it is removed. A text that is already stored for the organization stays unchanged.
// If the worker no longer holds the run, KeepSource writes nothing and returns false.
func (s *Store) KeepSource(ctx context.Context, held lease.Held, src domain.Source) (id string, kept bool, err error) {
	sum := sha256.Sum256([]byte(src.Text))
	hash := sum[:]
	kept, err = lease.UnderFence(ctx, s.db, held, func(tx *sqlx.Tx, _ time.Time) error {
		// If the text exists, the update changes no value but locks the row, so that the text is
		// not removed before it is linked.
		_, err := tx.ExecContext(ctx, `INSERT INTO sources AS s (org_id, hash, url, title, language, text, characters, truncated)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT (org_id, hash) DO UPDATE SET org_id = s.org_id`,
			held.OrganizationID, hash, src.URL, src.Title, src.Language, src.Text, utf8.RuneCountInString(src.Text), src.Truncated)
		if err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, `INSERT INTO run_sources (run_id, org_id, hash) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING`,
			held.RunID, held.OrganizationID, hash)
		return err
	})
	if err != nil {
		return "", false, fmt.Errorf("keeping source: %w", err)
	}

	if !kept {
		return "", false, nil
	}

	return sourceID(hash), true, nil
}

// sourceRow is a row of sources.
type sourceRow struct {
	Hash       []byte      `db:"hash"`
	URL        string      `db:"url"`
	Title      string      `db:"title"`
	Language   string      `db:"language"`
	Text       string      `db:"text"`
	Characters int         `db:"characters"`
	Truncated  bool        `db:"truncated"`
	ReadAt     domain.Time `db:"read_at"`
}

// SourceBytes returns the size, in bytes, of the text that SourceByID returns.
func (s *Store) SourceBytes(ctx context.Context, org, id string) (bytes int, err error) {
	// An id in another format is not the id of a text.
	hash, ok := hashFor(id)
	if !ok {
		return 0, pg.NotFound()
	}
	err = s.db.Within(ctx, []string{org}, func(tx *sqlx.Tx) error {
		return tx.GetContext(ctx, &bytes, `SELECT octet_length(text) FROM sources WHERE hash = $1 AND org_id = $2`, hash, org)
	})
	return bytes, pg.OneRow(err, "reading the size of a source")
}

// SourceByID returns a text that an organization's runs have read. It returns not_found if no text
// has this id.
func (s *Store) SourceByID(ctx context.Context, org, id string) (domain.Source, error) {
	hash, ok := hashFor(id)
	if !ok {
		return domain.Source{}, pg.NotFound()
	}

	var row sourceRow
	err := s.db.Within(ctx, []string{org}, func(tx *sqlx.Tx) error {
		return tx.GetContext(ctx, &row, `SELECT hash, url, title, language, text, characters, truncated, read_at FROM sources
			WHERE hash = $1 AND org_id = $2`, hash, org)
	})
	if errors.Is(err, sql.ErrNoRows) {
		return domain.Source{}, pg.NotFound()
	}
	if err != nil {
		return domain.Source{}, fmt.Errorf("reading source: %w", err)
	}

	return domain.Source{
		ID: sourceID(row.Hash), URL: row.URL, Title: row.Title, Language: row.Language, Text: row.Text,
		Characters: row.Characters, Truncated: row.Truncated, ReadAt: row.ReadAt,
	}, nil
}

// Content identifies a source text or a blob of an organization by its hash. The hash is the
// SHA-256 of the content.
type Content struct {
	OrganizationID string `db:"org_id"`
	Hash           []byte `db:"hash"`
}

// columns returns the contents' organizations and hashes as two SQL arrays.
func columns(contents []Content) (orgs, hashes any) {
	orgs = pq.Array(pg.Column(contents, func(c *Content) string { return c.OrganizationID }))
	return orgs, pq.ByteaArray(pg.Column(contents, func(c *Content) []byte { return c.Hash }))
}

// PruneSources checks up to limit texts that are due for a check, and returns how many it checked.
// It removes the texts to which no run links, and schedules the remaining texts for another check
// in a day. Usually a text is removed together with the last run that read it. PruneSources finds
// texts whose runs were removed by a binary of the previous release.
func (s *Store) PruneSources(ctx context.Context, limit int) (int, error) {
	return s.prune(ctx, "sources", limit, removeUnlinkedSources)
}

// prune checks up to limit rows of a table that are due for a check. It calls the function remove
// with the rows that it could lock, and schedules the rows that remain for another check in a day.
// It skips locked rows, because another process is checking or linking them. It returns the number
// of rows that it checked.
func (s *Store) prune(
	ctx context.Context, table string, limit int, remove func(ctx context.Context, tx *sqlx.Tx, contents []Content) error,
) (int, error) {
	var due, locked []Content
	if err := s.db.SelectContext(ctx, &due, `SELECT org_id, hash FROM `+table+`_to_sweep($1)`, limit); err != nil {
		return 0, fmt.Errorf("looking for %s: %w", table, err)
	}

	if len(due) == 0 {
		return 0, nil
	}

	err := s.db.Within(ctx, pg.Column(due, func(c *Content) string { return c.OrganizationID }), func(tx *sqlx.Tx) error {
		// The transaction may be retried, so each attempt starts with an empty list.
		locked = locked[:0]
		orgs, hashes := columns(due)
		err := tx.SelectContext(ctx, &locked, `SELECT t.org_id, t.hash FROM `+table+` t JOIN unnest($1::text[], $2::bytea[]) AS u (org_id, hash)
			ON t.org_id = u.org_id AND t.hash = u.hash
			WHERE t.sweep_after <= now() ORDER BY t.org_id, t.hash FOR UPDATE OF t SKIP LOCKED`, orgs, hashes)
		if err != nil {
			return err
		}

		orgs, hashes = columns(locked)
		_, err = tx.ExecContext(ctx, `UPDATE `+table+` t SET sweep_after = now() + interval '1 day'
			FROM unnest($1::text[], $2::bytea[]) AS u (org_id, hash) WHERE t.org_id = u.org_id AND t.hash = u.hash`, orgs, hashes)
		if err != nil {
			return err
		}

		return remove(ctx, tx, locked)
	})
	if err != nil {
		return 0, fmt.Errorf("pruning %s: %w", table, err)
	}

	return len(locked), nil
}

// removeUnlinkedSources removes those of the given texts to which no run links. An earlier
// statement has locked the texts. A new link to a text is therefore either visible here, or its
// transaction waits for the lock and then finds that the text was removed.
func removeUnlinkedSources(ctx context.Context, tx *sqlx.Tx, texts []Content) error {
	orgs, hashes := columns(texts)
	_, err := tx.ExecContext(ctx, `DELETE FROM sources s USING unnest($1::text[], $2::bytea[]) AS u (org_id, hash)
		WHERE s.org_id = u.org_id AND s.hash = u.hash
		AND NOT EXISTS (SELECT 1 FROM run_sources l WHERE l.org_id = u.org_id AND l.hash = u.hash)`, orgs, hashes)
	return err
}

// ForgetCalls removes everything that the tool calls of runs have stored: effects, sources, files,
// and the records of the documents whose text the runs got. The documents themselves stay. A text
// is removed together with the last run that read it, and a blob together with the last link to it.
func ForgetCalls(ctx context.Context, tx *sqlx.Tx, runs []string) error {
	if _, err := tx.ExecContext(ctx, `DELETE FROM effects WHERE run_id = ANY ($1)`, pq.Array(runs)); err != nil {
		return err
	}

	var read []Content
	if err := tx.SelectContext(ctx, &read, `DELETE FROM run_sources WHERE run_id = ANY ($1) RETURNING org_id, hash`, pq.Array(runs)); err != nil {
		return err
	}

	if err := forgetTexts(ctx, tx, read); err != nil {
		return err
	}

	if _, err := tx.ExecContext(ctx, `DELETE FROM run_documents WHERE run_id = ANY ($1)`, pq.Array(runs)); err != nil {
		return err
	}

	return forgetFiles(ctx, tx, runs)
}

// forgetTexts removes those of the given texts to which no run links. It first locks the texts in a
// fixed order.
func forgetTexts(ctx context.Context, tx *sqlx.Tx, read []Content) error {
	// Most runs have read no sources.
	if len(read) == 0 {
		return nil
	}
	orgs, hashes := columns(read)
	_, err := tx.ExecContext(ctx, `SELECT 1 FROM sources s WHERE (s.org_id, s.hash) IN (SELECT * FROM unnest($1::text[], $2::bytea[]))
		ORDER BY s.org_id, s.hash FOR UPDATE`, orgs, hashes)
	if err != nil {
		return err
	}
	return removeUnlinkedSources(ctx, tx, read)
}

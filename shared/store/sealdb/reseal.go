package sealdb

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"parley/shared/domain"
	"parley/shared/store/pg"
)

// ErrUnopened means that a sealed value cannot be opened with any key.
var ErrUnopened = errors.New("cannot decrypt a stored value")

// Resealer seals values with the current key. It returns a value unchanged if the value is already
// sealed with that key, and ErrUnopened if the value cannot be opened with any key.
type Resealer interface {
	ResealText(kind Kind, org, id, sealed string) (string, error)
	ResealBytes(sealed, associated []byte) ([]byte, error)
}

// Resealed is the result of resealing a value.
type Resealed struct {
	Value

	Err error // nil if the value has the current key or no longer exists; ErrUnopened if a part of it cannot be opened and stays unchanged
}

// Reseal seals values of one organization with the current key, in one short transaction that locks
// the values' rows. A concurrent change to a row happens before or after the transaction and is not
// lost. The results are in the order of values. If Reseal returns an error, nothing was changed.
func (s *Store) Reseal(ctx context.Context, org string, values []Value, by Resealer) ([]Resealed, error) {
	var out []Resealed
	err := s.db.Within(ctx, []string{org}, func(tx *sqlx.Tx) error {
		out = out[:0]
		for _, value := range values {
			// If one value cannot be opened, the remaining values are resealed nevertheless.
			err := reseal(ctx, tx, value, by)
			if err != nil && !errors.Is(err, ErrUnopened) {
				return fmt.Errorf("resealing %s: %w", value, err)
			}
			out = append(out, Resealed{value, err})
		}
		return nil
	})
	return out, err
}

// reseal seals one value with the current key. It is not an error if the value is gone.
func reseal(ctx context.Context, tx *sqlx.Tx, v Value, by Resealer) error {
	// The statement reads a previous secret that is no longer valid as "", so that the following
	// update removes it.
	const pair = `SELECT secret, CASE WHEN previous_until > clock_timestamp() THEN coalesce(previous_secret, '') ELSE '' END AS previous FROM `

	if v.Kind == KindTool || v.Kind == KindWidget {
		if cleared, err := clearDeleted(ctx, tx, v); cleared || err != nil {
			return err
		}
	}

	switch v.Kind {
	case KindTool:
		return resealTools(ctx, tx, v, by)
	case KindToolVersion:
		return resealConfig(ctx, tx, v, by)
	case KindWidget:
		return resealPair(ctx, tx, v, by, `SELECT widget_secret AS secret, '' AS previous FROM agents`,
			`UPDATE agents SET widget_secret = $3 WHERE id = $1 AND org_id = $2 AND $4 = ''`)
	case KindHook:
		return resealPair(ctx, tx, v, by, pair+`hooks`,
			`UPDATE hooks SET secret = $3, previous_secret = $4 WHERE id = $1 AND org_id = $2`)
	case KindNotification:
		return resealPair(ctx, tx, v, by, pair+`notification_endpoints`,
			`UPDATE notification_endpoints SET secret = $3, previous_secret = nullif($4, '') WHERE id = $1 AND org_id = $2`)
	case KindDelivery:
		return resealDelivery(ctx, tx, v, by)
	case KindContent:
		return resealChunk(ctx, tx, v, by)
	default:
		return fmt.Errorf("unknown kind of encrypted value: %q", v.Kind)
	}
}

// clearDeleted removes the secrets of an agent if the agent was deleted, and reports whether the
// agent was deleted. The row of a deleted agent is kept for its runs, which do not use the secrets.
func clearDeleted(ctx context.Context, tx *sqlx.Tx, v Value) (cleared bool, err error) {
	return pg.AnyRow(tx.ExecContext(ctx, `UPDATE agents SET tools = '{}', widget_secret = ''
		WHERE id = $1 AND org_id = $2 AND deleted_at IS NOT NULL`, v.ID, v.OrganizationID))
}

// resealTexts returns the texts sealed with the current key. Texts that cannot be opened with any
// key are returned unchanged, together with ErrUnopened.
func resealTexts(v Value, by Resealer, texts []string) (fresh []string, err error) {
	fresh = slices.Clone(texts)
	for i, sealed := range texts {
		// There is no previous secret.
		if sealed == "" {
			continue
		}
		text, textErr := by.ResealText(v.Kind, v.OrganizationID, v.ID, sealed)
		if textErr != nil {
			if !errors.Is(textErr, ErrUnopened) {
				return nil, textErr
			}
			err = textErr
			continue
		}
		fresh[i] = text
	}

	return fresh, err
}

// resealPair reseals a row that contains the current secret and the previous secret. The arguments
// read and write are the statements that read and write the row. The argument read has no WHERE
// clause; resealPair adds it.
func resealPair(ctx context.Context, tx *sqlx.Tx, v Value, by Resealer, read, write string) error {
	var row struct {
		Secret   string `db:"secret"`
		Previous string `db:"previous"`
	}

	err := tx.GetContext(ctx, &row, read+` WHERE id = $1 AND org_id = $2 FOR NO KEY UPDATE`, v.ID, v.OrganizationID)
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	if err != nil {
		return err
	}

	// If one of the texts cannot be opened with any key, the other text is resealed nevertheless.
	fresh, unopened := resealTexts(v, by, []string{row.Secret, row.Previous})
	if fresh == nil {
		return unopened
	}

	if _, err := tx.ExecContext(ctx, write, v.ID, v.OrganizationID, fresh[0], fresh[1]); err != nil {
		return err
	}

	return unopened
}

// sealedTexts returns the distinct sealed values of a tool set.
func sealedTexts(tools []byte) ([]string, error) {
	var t domain.Tools
	if len(tools) > 0 {
		if err := json.Unmarshal(tools, &t); err != nil {
			return nil, fmt.Errorf("reading tools: %w", err)
		}
	}

	var texts []string
	if t.HTTPRequest != nil {
		for _, e := range t.HTTPRequest.Endpoints {
			texts = append(slices.AppendSeq(texts, maps.Values(e.Headers)), e.SigningSecret)
		}
	}

	if t.MCP != nil {
		for _, server := range t.MCP.Servers {
			texts = slices.AppendSeq(texts, maps.Values(server.Headers))
		}
	}

	slices.Sort(texts)
	texts = slices.Compact(texts)
	return slices.DeleteFunc(texts, func(text string) bool { return text == "" }), nil
}

// replacements returns the sealed texts of a tool set that need the current key, and their
// replacements. The error is ErrUnopened if some texts cannot be opened with any key.
func replacements(tools []byte, v Value, by Resealer) (oldTexts, newTexts []string, err error) {
	// Several headers may have the same sealed text.
	texts, err := sealedTexts(tools)
	if err != nil {
		return nil, nil, err
	}

	fresh, unopened := resealTexts(v, by, texts)
	if fresh == nil {
		return nil, nil, unopened
	}

	for i := range texts {
		if texts[i] != fresh[i] {
			oldTexts, newTexts = append(oldTexts, texts[i]), append(newTexts, fresh[i])
		}
	}
	return oldTexts, newTexts, unopened
}

// resealTools reseals the values in an agent's tools. It replaces only the sealed texts in the
// stored JSON, so that the rest of the JSON stays the same byte for byte.
func resealTools(ctx context.Context, tx *sqlx.Tx, v Value, by Resealer) error {
	var tools []byte
	err := tx.GetContext(ctx, &tools, `SELECT tools FROM agents WHERE id = $1 AND org_id = $2 FOR NO KEY UPDATE`, v.ID, v.OrganizationID)
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	if err != nil {
		return err
	}

	oldTexts, newTexts, unopened := replacements(tools, v, by)
	if len(oldTexts) == 0 {
		return unopened
	}

	// A sealed text contains no character that JSON escapes, so it can be found in the stored JSON.
	for i := range oldTexts {
		tools = bytes.ReplaceAll(tools, []byte(`"`+oldTexts[i]+`"`), []byte(`"`+newTexts[i]+`"`))
	}

	if _, err := tx.ExecContext(ctx, `UPDATE agents SET tools = $3 WHERE id = $1 AND org_id = $2`, v.ID, v.OrganizationID, string(tools)); err != nil {
		return err
	}

	return unopened
}

// resealConfig replaces sealed values in a version of an agent through a function of the schema,
// because the service may not update the table agent_configs.
func resealConfig(ctx context.Context, tx *sqlx.Tx, v Value, by Resealer) error {
	var tools []byte
	err := tx.GetContext(ctx, &tools, `SELECT config -> 'tools' FROM agent_configs WHERE target_id = $1 AND version = $2::int AND org_id = $3`,
		v.ID, v.Part, v.OrganizationID)

	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	if err != nil {
		return err
	}

	oldTexts, newTexts, unopened := replacements(tools, v, by)
	if len(oldTexts) == 0 {
		return unopened
	}

	// If another process resealed the value first, no text is replaced. The next pass finds that
	// the value has the current key.
	_, err = tx.ExecContext(ctx, `SELECT reseal_config($1, $2, $3::int, $4, $5)`, v.OrganizationID, v.ID, v.Part, pq.Array(oldTexts), pq.Array(newTexts))
	if err != nil {
		return err
	}

	return unopened
}

// resealDelivery reseals the body of a delivery. A body that is not stored or not sealed needs no
// change.
func resealDelivery(ctx context.Context, tx *sqlx.Tx, v Value, by Resealer) error {
	var body []byte
	err := tx.GetContext(ctx, &body, `SELECT body FROM deliveries WHERE hook_id = $1 AND delivery_id = $2 AND org_id = $3
		AND sealed AND body IS NOT NULL FOR NO KEY UPDATE`, v.ID, v.Part, v.OrganizationID)
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	if err != nil {
		return err
	}

	fresh, err := by.ResealBytes(body, DeliveryName(v.OrganizationID, v.ID, v.Part))
	if err != nil || bytes.Equal(fresh, body) {
		return err
	}

	_, err = tx.ExecContext(ctx, `UPDATE deliveries SET body = $4 WHERE hook_id = $1 AND delivery_id = $2 AND org_id = $3`,
		v.ID, v.Part, v.OrganizationID, fresh)
	return err
}

// resealChunk reseals all pieces of a chunk, or none of them. A chunk that is not sealed needs no
// change.
func resealChunk(ctx context.Context, tx *sqlx.Tx, v Value, by Resealer) error {
	hash, err := hex.DecodeString(v.ID)
	if err != nil {
		return fmt.Errorf("reading hash: %w", err)
	}

	n, err := strconv.Atoi(v.Part)
	if err != nil {
		return fmt.Errorf("reading number of chunk: %w", err)
	}

	var row struct {
		Data   []byte `db:"data"`
		Sealed int    `db:"sealed"`
	}
	err = tx.GetContext(ctx, &row, `SELECT data, sealed FROM blob_chunks WHERE org_id = $1 AND hash = $2 AND n = $3 AND sealed > 0 FOR NO KEY UPDATE`,
		v.OrganizationID, hash, n)
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	if err != nil {
		return err
	}

	// Each piece of a chunk is sealed separately, under its number within the blob.
	fresh, sealing, number := make([]byte, 0, len(row.Data)), row.Sealed, n*(ChunkSize/PieceSize)
	for piece := range slices.Chunk(row.Data, PieceSize+row.Sealed) {
		other, err := by.ResealBytes(piece, PieceName(v.OrganizationID, hash, number))
		if err != nil {
			return err
		}
		fresh, sealing = append(fresh, other...), row.Sealed+len(other)-len(piece)
		number++
	}

	if bytes.Equal(fresh, row.Data) {
		return nil
	}

	_, err = tx.ExecContext(ctx, `UPDATE blob_chunks SET data = $4, sealed = $5 WHERE org_id = $1 AND hash = $2 AND n = $3`,
		v.OrganizationID, hash, n, fresh, sealing)
	return err
}

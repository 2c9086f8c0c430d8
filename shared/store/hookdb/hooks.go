package hookdb

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"parley/shared/apierr"
	"parley/shared/domain"
	"parley/shared/store/agentdb"
	"parley/shared/store/pg"
)

// MaxHooks is the maximum number of hooks of an organization, unless NewHook.Max is set. The number
// is limited because ingresses cache hooks.
const MaxHooks = 100

// NewHook is a hook to create. The caller provides its id, and its secret sealed
// for [secrets.Hook].
type NewHook struct {
	domain.Hook

	OrganizationID string
	SealedSecret   string
	Max            int // maximum number of hooks of the organization; 0: MaxHooks
}

// HookChange is a change of a hook. A nil field leaves the corresponding value unchanged.
type HookChange struct {
	Name, AgentID, KeyID, MessageTemplate *string
	OutputSchema                          *domain.JSONSchema // a pointer to nil removes the schema
	Filter                                *[]domain.HookFilter
	Coalesce                              **domain.HookCoalesce // a pointer to nil turns coalescing off, so that each delivery starts a run
	SignatureHeader, DeliveryIDHeader     *string
	Enabled                               *bool
	SealedSecret                          *string
	KeepPrevious                          time.Duration // time for which the old secret stays valid after a change; 0: none
}

// ReceivingHook is a hook with all values that are needed to check a delivery. Its secrets are
// still sealed. Ingresses cache it and must not change it.
type ReceivingHook struct {
	domain.Hook

	OrganizationID string
	SealedSecrets  []string // newest first; includes the previous secret while it is valid
	KeyScope       domain.KeyScope
	KeyUserID      string   // the user of the key; "" if the key belongs to the organization only
	Senders        []string // client addresses verified within [domain.SendersKept]
}

// hookRow is the row of a hook.
type hookRow struct {
	ID               string       `db:"id"`
	Name             string       `db:"name"`
	AgentID          string       `db:"agent_id"`
	KeyID            string       `db:"key_id"`
	Source           string       `db:"source"`
	PreviousUntil    sql.NullTime `db:"previous_until"`
	SignatureHeader  string       `db:"signature_header"`
	DeliveryIDHeader string       `db:"delivery_id_header"`
	MessageTemplate  string       `db:"message_template"`
	OutputSchema     []byte       `db:"output_schema"` // nil: none
	Filter           []byte       `db:"filter"`
	Coalesce         []byte       `db:"coalescing"` // nil: no coalescing
	Enabled          bool         `db:"enabled"`
	LastDeliveryAt   *domain.Time `db:"last_delivery_at"`
	LastRejectedAt   *domain.Time `db:"last_rejected_at"`
	CreatedAt        domain.Time  `db:"created_at"`
	UpdatedAt        domain.Time  `db:"updated_at"`
}

// hookColumns are the columns of a hookRow, from hooks h. The time until which the previous secret
// is valid is null if it has passed.
const hookColumns = `h.id, h.name, h.agent_id, h.key_id, h.source, CASE WHEN h.previous_until > clock_timestamp() THEN h.previous_until END AS previous_until,
	h.signature_header, h.delivery_id_header, h.message_template, h.output_schema, h.filter, h.coalescing, h.enabled,
	(SELECT d.received_at FROM deliveries d WHERE d.hook_id = h.id AND d.status <> 'rejected' ORDER BY d.ref DESC LIMIT 1) AS last_delivery_at,
	(SELECT d.received_at FROM deliveries d WHERE d.hook_id = h.id AND d.status = 'rejected' ORDER BY d.ref DESC LIMIT 1) AS last_rejected_at,
	h.created_at, h.updated_at`

// hook converts the row to the hook that callers see, without its URL.
func (row *hookRow) hook() (domain.Hook, error) {
	out := domain.Hook{
		ID: row.ID, Name: row.Name, AgentID: row.AgentID, KeyID: row.KeyID, Source: domain.HookSource(row.Source), Secret: "***",
		PreviousUntil: domain.AtPtr(row.PreviousUntil.Time), SignatureHeader: row.SignatureHeader, DeliveryIDHeader: row.DeliveryIDHeader,
		MessageTemplate: row.MessageTemplate, OutputSchema: row.OutputSchema,
		Enabled: row.Enabled, LastDeliveryAt: row.LastDeliveryAt, LastRejectedAt: row.LastRejectedAt,
		CreatedAt: row.CreatedAt, UpdatedAt: row.UpdatedAt,
	}
	if err := json.Unmarshal(row.Filter, &out.Filter); err != nil {
		return out, fmt.Errorf("reading filter of hook: %w", err)
	}

	if row.Coalesce == nil {
		return out, nil
	}

	if err := json.Unmarshal(row.Coalesce, &out.Coalesce); err != nil {
		return out, fmt.Errorf("reading coalescing of hook: %w", err)
	}

	return out, nil
}

// CreateHook stores a hook and returns it in the form that lists show, without its URL. The error
// is about agentId if the organization has no such agent, and about keyId if the key is not a valid
// key of the organization. CreateHook returns conflict if the organization already has the maximum
// number of hooks.
func (s *Store) CreateHook(ctx context.Context, h NewHook) (domain.Hook, error) {
	filter, coalesce, err := hookRules(h.Filter, h.Coalesce)
	if err != nil {
		return domain.Hook{}, err
	}

	var row hookRow
	err = s.db.Within(ctx, []string{h.OrganizationID}, func(tx *sqlx.Tx) error {
		// The quota is checked under a lock, so concurrent requests cannot exceed it.
		if err := checkHookQuota(ctx, tx, h.OrganizationID, cmp.Or(h.Max, MaxHooks)); err != nil {
			return err
		}
		if err := checkAgentAndKey(ctx, tx, h.OrganizationID, &h.AgentID, &h.KeyID); err != nil {
			return err
		}
		return tx.GetContext(ctx, &row, `INSERT INTO hooks AS h (id, org_id, name, agent_id, key_id, source, secret, signature_header,
			  delivery_id_header, message_template, filter, coalescing, enabled, output_schema)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14) RETURNING `+hookColumns,
			h.ID, h.OrganizationID, h.Name, h.AgentID, h.KeyID, string(h.Source), h.SealedSecret, h.SignatureHeader,
			h.DeliveryIDHeader, h.MessageTemplate, filter, coalesce, h.Enabled, []byte(h.OutputSchema))
	})
	if err != nil {
		return domain.Hook{}, fmt.Errorf("creating hook: %w", err)
	}

	return row.hook()
}

// checkHookQuota returns a conflict error if the organization already has the maximum number of
// hooks. It locks the organization's hooks against concurrent creation until the transaction ends.
func checkHookQuota(ctx context.Context, tx *sqlx.Tx, org string, maximum int) error {
	if err := pg.AdvisoryLock(ctx, tx, "hooks "+org); err != nil {
		return err
	}
	return pg.CheckQuota(ctx, tx, maximum, "hook quota of the organization exceeded (%d); delete a hook first",
		`SELECT count(*) FROM hooks WHERE org_id = $1 AND deleted_at IS NULL`, org)
}

// hookRules encodes a filter and the coalescing for the database. coalescing is nil if the hook
// does not coalesce.
func hookRules(filter []domain.HookFilter, coalesce *domain.HookCoalesce) (filters, coalescing []byte, err error) {
	// The column must contain a list.
	if filter == nil {
		filter = []domain.HookFilter{}
	}

	if filters, err = json.Marshal(filter); err != nil {
		return nil, nil, fmt.Errorf("rendering filter: %w", err)
	}

	if coalesce == nil {
		return filters, nil, nil
	}

	if coalescing, err = json.Marshal(coalesce); err != nil {
		return nil, nil, fmt.Errorf("rendering coalescing: %w", err)
	}

	return filters, coalescing, nil
}

// checkAgentAndKey checks the agent and the key of a hook. It skips nil arguments. A missing agent
// or key is an error about the field agentId or keyId.
func checkAgentAndKey(ctx context.Context, tx *sqlx.Tx, org string, agentID, keyID *string) error {
	if agentID != nil {
		_, err := agentdb.SelectAgent(ctx, tx, org, *agentID, "")
		// An agent of another organization causes the same error as a missing agent.
		if apierr.CodeFor(err) == apierr.NotFound {
			return apierr.Invalid("agentId", "invalid_value", "is not an agent of this organization")
		}
		if err != nil {
			return err
		}
	}

	if keyID == nil {
		return nil
	}

	var found bool
	err := tx.GetContext(ctx, &found, `SELECT EXISTS (SELECT FROM api_keys WHERE id = $1 AND org_id = $2 AND scope = 'organization'
		AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > clock_timestamp()))`, *keyID, org)
	if err != nil {
		return fmt.Errorf("reading key of hook: %w", err)
	}

	if !found {
		return apierr.Invalid("keyId", "invalid_value", "must be an API key of this organization")
	}

	return nil
}

// hooksFrom selects a page of the hooks of organization $1, newest first. $2 is the last id of the
// previous page, and $3 the limit.
const hooksFrom = ` FROM hooks h WHERE h.org_id = $1 AND h.deleted_at IS NULL AND ($2 = '' OR h.id < $2) ORDER BY h.id DESC LIMIT $3`

// HookSizes returns the approximate sizes, in bytes, of the hooks that Hooks lists, in the same
// order. The caller uses them to read no more hooks than fit into memory.
func (s *Store) HookSizes(ctx context.Context, org, after string, limit int) (bytes []int, err error) {
	err = s.db.Within(ctx, []string{org}, func(tx *sqlx.Tx) error {
		bytes = nil
		return tx.SelectContext(ctx, &bytes, `SELECT octet_length(h.name) + octet_length(h.message_template) + octet_length(h.filter::text) + coalesce(octet_length(h.output_schema::text), 0) + 500`+
			hooksFrom, org, after, limit)
	})
	if err != nil {
		return nil, fmt.Errorf("reading the sizes of hooks: %w", err)
	}
	return bytes, nil
}

// Hooks lists up to limit hooks of an organization, newest first. If the argument after is not
// empty, it is the last id of the previous page.
func (s *Store) Hooks(ctx context.Context, org, after string, limit int) ([]domain.Hook, error) {
	var rows []hookRow
	err := s.db.Within(ctx, []string{org}, func(tx *sqlx.Tx) error {
		rows = rows[:0]
		return tx.SelectContext(ctx, &rows, `SELECT `+hookColumns+hooksFrom, org, after, limit)
	})
	if err != nil {
		return nil, fmt.Errorf("listing hooks: %w", err)
	}

	out := make([]domain.Hook, len(rows))
	for i := range rows {
		if out[i], err = rows[i].hook(); err != nil {
			return nil, err
		}
	}

	return out, nil
}

// Hook returns a hook of an organization. It returns not_found if there is no such hook or it is
// deleted.
func (s *Store) Hook(ctx context.Context, org, id string) (domain.Hook, error) {
	var row hookRow
	err := s.db.Within(ctx, []string{org}, func(tx *sqlx.Tx) error {
		return tx.GetContext(ctx, &row, `SELECT `+hookColumns+` FROM hooks h WHERE h.id = $1 AND h.org_id = $2 AND h.deleted_at IS NULL`, id, org)
	})
	return oneHook(&row, err, "reading hook")
}

// oneHook converts the result of a statement that reads one hook: not_found if there was no row.
func oneHook(row *hookRow, err error, doing string) (domain.Hook, error) {
	switch {
	// Without a row, the hook does not exist, is deleted, or belongs to another organization.
	case errors.Is(err, sql.ErrNoRows):
		return domain.Hook{}, pg.NotFound()
	case err != nil:
		return domain.Hook{}, fmt.Errorf("%s: %w", doing, err)
	}
	return row.hook()
}

// UpdateHook changes a hook of an organization and returns it as stored. Its errors are those of
// CreateHook, and not_found if there is no such hook. Ingresses may use the old hook from their
// cache for a few seconds.
func (s *Store) UpdateHook(ctx context.Context, org, id string, change HookChange) (domain.Hook, error) {
	var filter, coalesce []byte
	var err error
	if change.Filter != nil {
		if filter, _, err = hookRules(*change.Filter, nil); err != nil {
			return domain.Hook{}, err
		}
	}

	if change.Coalesce != nil {
		if _, coalesce, err = hookRules(nil, *change.Coalesce); err != nil {
			return domain.Hook{}, err
		}
	}

	// A pointer to nil removes the schema.
	var schema []byte
	if change.OutputSchema != nil {
		schema = *change.OutputSchema
	}

	var row hookRow
	err = s.db.Within(ctx, []string{org}, func(tx *sqlx.Tx) error {
		// The lock is taken first, so that for a missing hook the error is always not_found.
		if err := lockHook(ctx, tx, org, id); err != nil {
			return err
		}

		if err := checkAgentAndKey(ctx, tx, org, change.AgentID, change.KeyID); err != nil {
			return err
		}

		// A new secret replaces the current secret, which stays valid only if KeepPrevious is set.
		return tx.GetContext(ctx, &row, `UPDATE hooks h SET name = coalesce($3, name), agent_id = coalesce($4, agent_id), key_id = coalesce($5, key_id),
			  message_template = coalesce($6, message_template), filter = coalesce($7, filter),
			  coalescing = CASE WHEN $8 THEN $9 ELSE coalescing END,
			  signature_header = coalesce($10, signature_header), delivery_id_header = coalesce($11, delivery_id_header),
			  enabled = coalesce($12, enabled), secret = coalesce($13, secret),
			  output_schema = CASE WHEN $15 THEN $16::json ELSE output_schema END,
			  previous_secret = CASE WHEN $13 IS NULL THEN previous_secret WHEN $14 > 0 THEN secret ELSE '' END,
			  previous_until = CASE WHEN $13 IS NULL THEN previous_until WHEN $14 > 0 THEN clock_timestamp() + make_interval(secs => $14) END,
			  updated_at = clock_timestamp()
			WHERE h.id = $1 AND h.org_id = $2 RETURNING `+hookColumns,
			id, org, change.Name, change.AgentID, change.KeyID, change.MessageTemplate, filter, change.Coalesce != nil, coalesce,
			change.SignatureHeader, change.DeliveryIDHeader, change.Enabled, change.SealedSecret, change.KeepPrevious.Seconds(),
			change.OutputSchema != nil, schema)
	})
	return oneHook(&row, err, "updating hook")
}

// lockHook locks a hook against changes. It returns sql.ErrNoRows if there is no such hook.
func lockHook(ctx context.Context, tx *sqlx.Tx, org, id string) error {
	var found string
	return tx.GetContext(ctx, &found, `SELECT id FROM hooks WHERE id = $1 AND org_id = $2 AND deleted_at IS NULL FOR UPDATE`, id, org)
}

// MoveHooks assigns a key's hooks to the key that replaces it. The transaction tx is the one that
// rotates the key.
func MoveHooks(ctx context.Context, tx *sqlx.Tx, org, from, to string) error {
	if _, err := tx.ExecContext(ctx, `UPDATE hooks SET key_id = $3 WHERE org_id = $1 AND key_id = $2`, org, from, to); err != nil {
		return fmt.Errorf("moving hooks to the new key: %w", err)
	}
	return nil
}

// DeleteHook deletes a hook. Afterwards neither the hook nor its delivery log can be read; the
// sweeper removes the log. The runs of its deliveries are kept. DeleteHook returns not_found if
// there is no such hook.
func (s *Store) DeleteHook(ctx context.Context, org, id string) error {
	var deleted bool
	err := s.db.Within(ctx, []string{org}, func(tx *sqlx.Tx) (err error) {
		deleted, err = pg.AnyRow(tx.ExecContext(ctx, `UPDATE hooks SET deleted_at = clock_timestamp(), secret = '', previous_secret = '', previous_until = NULL
			WHERE id = $1 AND org_id = $2 AND deleted_at IS NULL`, id, org))
		// The addresses of the hook's senders are personal data, so they are deleted, too.
		if err == nil && deleted {
			_, err = tx.ExecContext(ctx, `DELETE FROM hook_senders WHERE hook_id = $1 AND org_id = $2`, id, org)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("deleting hook: %w", err)
	}

	if !deleted {
		return pg.NotFound()
	}

	return nil
}

// receivingRow is a row of receiving_hook. PreviousSecret is null once it is no longer valid.
type receivingRow struct {
	hookRow

	OrganizationID string         `db:"org_id"`
	Secret         string         `db:"secret"`
	PreviousSecret sql.NullString `db:"previous_secret"`
	KeyScope       string         `db:"key_scope"`
	KeyUserID      sql.NullString `db:"key_user_id"`
	Senders        pq.StringArray `db:"senders"`
}

// ReceivingHook reads a hook in order to check a delivery, before the organization is known. It
// returns not_found if the hook does not exist or is deleted, or if its key or organization is
// gone. For a disabled hook, it returns the hook with Enabled false.
func (s *Store) ReceivingHook(ctx context.Context, id string) (ReceivingHook, error) {
	stmt, err := s.db.Prepared(ctx, `SELECT id, name, agent_id, key_id, source, previous_until, signature_header, delivery_id_header,
		message_template, output_schema, filter, coalescing, enabled, created_at, updated_at, org_id, secret, previous_secret,
		key_scope, key_user_id, senders FROM receiving_hook($1, $2)`)
	if err != nil {
		return ReceivingHook{}, err
	}

	var row receivingRow
	err = stmt.GetContext(ctx, &row, id, pg.Interval(domain.SendersKept))
	hook, err := oneHook(&row.hookRow, err, "reading hook")
	if err != nil {
		return ReceivingHook{}, err
	}

	out := ReceivingHook{
		Hook: hook, OrganizationID: row.OrganizationID, SealedSecrets: []string{row.Secret},
		KeyScope: domain.KeyScope(row.KeyScope), KeyUserID: row.KeyUserID.String,
		Senders: row.Senders,
	}
	// After a rotation, senders may still sign with the old secret.
	if row.PreviousSecret.Valid {
		out.SealedSecrets = append(out.SealedSecrets, row.PreviousSecret.String)
	}

	return out, nil
}

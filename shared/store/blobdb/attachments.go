package blobdb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"parley/shared/domain"
	"parley/shared/store/lease"
	"parley/shared/store/pg"
)

const (
	// UploadLife is the time for which an upload is kept. A run that attaches the upload gets a
	// file of its own.
	UploadLife = 24 * time.Hour
	// VisitorUploadLife is how long the upload of a widget's visitor is kept. It is short, because
	// strangers share the space for visitors' files.
	VisitorUploadLife = time.Hour
)

// acceptTime is the time after which attachments are removed if their run does not exist. It is
// much longer than it takes to accept a run.
const acceptTime = time.Hour

// NewUpload is an upload to add. Its content is already stored, by Store.Upload. An upload becomes
// an attachment when a run uses it.
type NewUpload struct {
	ID        string
	Principal string // principal who owns the upload
	SessionID string // the only session in which the upload may be attached; empty: any
	AgentID   string // the agent, if the upload is from a visitor of its widget; otherwise empty
	Name      string
	MIMEType  string
	Content   Upload
}

// AddUpload adds an upload to an organization's files. It returns ErrFilesFull if the files would
// exceed maximum bytes (0: no limit), and ErrBlobGone if the content was removed meanwhile. For a
// widget's visitor, it also returns the errors of [Store.CheckVisitor].
func (s *Store) AddUpload(ctx context.Context, org string, u NewUpload, maximum int64) error {
	life := UploadLife
	if u.AgentID != "" {
		life = VisitorUploadLife
	}
	err := s.db.Within(ctx, []string{org}, func(tx *sqlx.Tx) error {
		if u.AgentID != "" {
			if err := reserveVisitor(ctx, tx, org, u.Principal, u.Content.Bytes, maximum); err != nil {
				return err
			}
		}
		if err := reserveRows(ctx, tx, org, 1, maximum); err != nil {
			return err
		}
		if err := HoldBlobs(ctx, tx, org, []Blob{u.Content.Blob()}, nil); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, `INSERT INTO files (id, org_id, run_id, call_id, session_ref, name, mime_type, bytes, hash,
			principal, session_name, sweep_after, widget_agent)
			VALUES ($1, $2, '', $1, 0, $3, $4, $5, $6, $7, $8, now() + $9::interval, nullif($10, ''))`,
			u.ID, org, u.Name, u.MIMEType, u.Content.Bytes, u.Content.Hash, u.Principal, u.SessionID, pg.Interval(life), u.AgentID)
		return err
	})
	if err != nil {
		return fmt.Errorf("adding upload: %w", err)
	}
	return nil
}

// reserveRows returns ErrFilesFull if the organization's files exceed maximum bytes (0: no limit),
// or would exceed them with the given number of additional rows. The contents of the new files are
// already stored, so their bytes are already counted.
func reserveRows(ctx context.Context, tx *sqlx.Tx, org string, rows int, maximum int64) error {
	if maximum == 0 {
		return nil
	}
	if err := pg.AdvisoryLock(ctx, tx, "blobs "+org); err != nil {
		return err
	}
	var cost int64
	if err := tx.GetContext(ctx, &cost, filesCost, org, fileCost); err != nil {
		return err
	}
	if cost+int64(rows)*fileCost > maximum {
		return ErrFilesFull
	}
	return nil
}

// filesCost is the SQL query for the number of bytes that count towards the quota of files of
// organization $1. $2 is the number of bytes that each row of files costs.
const filesCost = `SELECT (SELECT coalesce(sum(bytes), 0)::bigint FROM blobs WHERE org_id = $1)
	- (SELECT coalesce(sum(d.bytes), 0)::bigint FROM (SELECT DISTINCT ON (hash) bytes FROM documents
	  WHERE org_id = $1 AND hash IS NOT NULL ORDER BY hash) d)
	+ $2 * (SELECT count(*) FROM files WHERE org_id = $1)`

// Attachable is a file that a request may attach if the caller may read the file. The caller checks
// Principal, SessionID and AgentID.
type Attachable struct {
	domain.File

	Hash      []byte
	Principal string // for an upload, which has no RunID: its owner
	SessionID string // for an upload: the only session in which it may be attached; empty: any
	AgentID   string // for an upload by a widget's visitor: the only agent to which it may be sent
}

// attachableRow is the database row from which an Attachable is made.
type attachableRow struct {
	fileRow

	Principal   string `db:"principal"`
	SessionName string `db:"session_name"`
	WidgetAgent string `db:"widget_agent"`
}

// AttachableFile returns a file or an upload of an organization. It returns not_found if no file
// has this id, or if it is an expired upload.
func (s *Store) AttachableFile(ctx context.Context, org, id string) (Attachable, error) {
	var row attachableRow
	err := s.db.Within(ctx, []string{org}, func(tx *sqlx.Tx) error {
		return tx.GetContext(ctx, &row, `SELECT `+fileColumns+`, coalesce(principal, '') AS principal, coalesce(session_name, '') AS session_name,
			CASE WHEN run_id = '' THEN coalesce(widget_agent, '') ELSE '' END AS widget_agent
			FROM files WHERE id = $1 AND org_id = $2 AND hash IS NOT NULL AND (run_id <> '' OR sweep_after > now())`, id, org)
	})
	if errors.Is(err, sql.ErrNoRows) {
		return Attachable{}, pg.NotFound()
	}
	if err != nil {
		return Attachable{}, fmt.Errorf("reading file to attach: %w", err)
	}
	return Attachable{
		File: row.file(), Hash: row.Hash, Principal: row.Principal, SessionID: row.SessionName, AgentID: row.WidgetAgent,
	}, nil
}

// NewAttachment is a file to attach to a run. Its content is already stored.
type NewAttachment struct {
	domain.Attachment

	Hash    []byte
	AgentID string // the agent, if the request is from a visitor of its widget; otherwise empty
}

// LinkAttachments adds the attachments of a run that is about to be accepted. It returns
// ErrFilesFull if the organization's files would exceed maximum bytes (0: no limit), and
// ErrBlobGone if the content of an attachment was removed meanwhile. All files must come from the
// same kind of caller. If the run is not accepted, the caller must call UnlinkAttachments;
// otherwise the sweeper removes the attachments later.
func (s *Store) LinkAttachments(ctx context.Context, org, runID string, files []NewAttachment, maximum int64) error {
	blobs := Distinct(pg.Column(files, func(f *NewAttachment) Blob { return Blob{Hash: f.Hash, Bytes: f.Bytes} }))
	err := s.db.Within(ctx, []string{org}, func(tx *sqlx.Tx) error {
		if len(files) > 0 && files[0].AgentID != "" { // a request of a visitor
			if err := reserveVisitorRows(ctx, tx, org, len(files), 0, maximum); err != nil {
				return err
			}
		}
		if err := reserveRows(ctx, tx, org, len(files), maximum); err != nil {
			return err
		}
		if err := HoldBlobs(ctx, tx, org, blobs, nil); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, `INSERT INTO files (id, org_id, run_id, call_id, session_ref, name, mime_type, bytes, hash, widget_agent,
			sweep_after)
			SELECT u.id, $1, $2, $3, 0, u.name, u.mime_type, u.bytes, u.hash, nullif(u.widget_agent, ''), now() + $4::interval
			FROM unnest($5::text[], $6::text[], $7::text[], $8::bigint[], $9::bytea[], $10::text[])
			AS u (id, name, mime_type, bytes, hash, widget_agent)`,
			org, runID, domain.AttachmentCall, pg.Interval(acceptTime),
			pq.Array(pg.Column(files, func(f *NewAttachment) string { return f.FileID })),
			pq.Array(pg.Column(files, func(f *NewAttachment) string { return f.Name })),
			pq.Array(pg.Column(files, func(f *NewAttachment) string { return f.MediaType })),
			pq.Array(pg.Column(files, func(f *NewAttachment) int64 { return f.Bytes })),
			pq.ByteaArray(pg.Column(files, func(f *NewAttachment) []byte { return f.Hash })),
			pq.Array(pg.Column(files, func(f *NewAttachment) string { return f.AgentID })))
		return err
	})
	if err != nil {
		return fmt.Errorf("linking attachments: %w", err)
	}
	return nil
}

// UnlinkAttachments removes the attachments of a run that was not accepted.
func (s *Store) UnlinkAttachments(ctx context.Context, org, runID string) error {
	err := s.db.Within(ctx, []string{org}, func(tx *sqlx.Tx) error { return forgetFiles(ctx, tx, []string{runID}) })
	if err != nil {
		return fmt.Errorf("unlinking attachments: %w", err)
	}
	return nil
}

// StoredAttachment is an attachment in the form in which a worker reads it.
type StoredAttachment struct {
	domain.File

	Prepared string // the media type of the converted image, or "text"; empty: not prepared yet
	TextID   string // id of the source with the text that was read from the attachment; empty: none
}

// PreparedText is the value of StoredAttachment.Prepared for a document whose text was read.
const PreparedText = "text"

// storedRow is the database row from which a StoredAttachment is made.
type storedRow struct {
	fileRow

	Prepared string `db:"prepared"`
	TextID   string `db:"text_id"`
}

// HoldAttachments adds the attachments of a claimed run to the files of its session. Afterwards the
// sweeper no longer checks them. HoldAttachments returns the attachments with these ids that exist
// and belong to runs of the session, in the order of ids. kept is false if the worker no longer
// holds the run.
func (s *Store) HoldAttachments(ctx context.Context, held lease.Held, ids []string) (files []StoredAttachment, kept bool, err error) {
	var rows []storedRow
	kept, err = lease.UnderFence(ctx, s.db, held, func(tx *sqlx.Tx, _ time.Time) error {
		_, err := tx.ExecContext(ctx, `UPDATE files f SET session_ref = o.session_ref, sweep_after = NULL FROM open_runs o
			WHERE o.run_id = $1 AND o.org_id = $2 AND f.run_id = $1 AND f.call_id = $3 AND f.org_id = $2 AND f.sweep_after IS NOT NULL`,
			held.RunID, held.OrganizationID, domain.AttachmentCall)
		if err != nil {
			return err
		}
		rows = rows[:0]
		return tx.SelectContext(ctx, &rows, `SELECT f.id, f.run_id, f.call_id, f.name, f.mime_type, f.bytes, f.hash, f.created_at,
			coalesce(f.prepared, '') AS prepared, coalesce(f.text_id, '') AS text_id
			FROM unnest($3::text[]) WITH ORDINALITY AS u (id, n) JOIN files f ON f.id = u.id AND f.org_id = $2 AND f.call_id = $4
			JOIN open_runs o ON o.run_id = $1 AND o.session_ref = f.session_ref WHERE o.org_id = $2 ORDER BY u.n`,
			held.RunID, held.OrganizationID, pq.Array(ids), domain.AttachmentCall)
	})
	if err != nil {
		return nil, false, fmt.Errorf("reading attachments: %w", err)
	}

	files = make([]StoredAttachment, len(rows))
	for i := range rows {
		files[i] = StoredAttachment{File: rows[i].file(), Prepared: rows[i].Prepared, TextID: rows[i].TextID}
	}
	return files, kept, nil
}

// Prepared is the form into which a worker has converted an attachment for models.
type Prepared struct {
	Kind   string // see StoredAttachment.Prepared
	TextID string
	Image  []byte // the converted image, which replaces the content; nil: the content stays
}

// SetPrepared records how a worker has prepared an attachment of the run, so that no later attempt
// prepares it again. A converted image replaces the content. SetPrepared returns false if the
// worker no longer holds the run, or if the attachment does not exist.
func (s *Store) SetPrepared(ctx context.Context, held lease.Held, fileID string, p Prepared) (kept bool, err error) {
	blob := newBlob(p.Image)
	for range maxKeepTries {
		if p.Image != nil {
			if err = s.storeWhole(ctx, held.OrganizationID, blob); err != nil {
				break
			}
		}
		var found bool
		kept, err = lease.UnderFence(ctx, s.db, held, func(tx *sqlx.Tx, _ time.Time) (err error) {
			found, err = setPrepared(ctx, tx, held, fileID, p, blob)
			return err
		})
		if kept = kept && found; !errors.Is(err, ErrBlobGone) {
			break
		}
	}
	if err != nil {
		return false, fmt.Errorf("recording a prepared attachment: %w", err)
	}
	return kept, nil
}

// storeWhole stores a blob whose content is in memory. The sweeper removes the blob unless a link
// to it is made within an hour.
func (s *Store) storeWhole(ctx context.Context, org string, blob Blob) error {
	err := s.db.Within(ctx, []string{org}, func(tx *sqlx.Tx) error {
		_, err := reserveBlobs(ctx, tx, org, []Blob{blob})
		return err
	})
	if err != nil {
		return err
	}
	return s.fillBlobs(ctx, org, batches([]Blob{blob}))
}

// setPrepared updates the row of an attachment, and removes its former content if nothing else
// refers to it.
func setPrepared(ctx context.Context, tx *sqlx.Tx, held lease.Held, fileID string, p Prepared, blob Blob) (found bool, err error) {
	var before [][]byte
	err = tx.SelectContext(ctx, &before, `SELECT hash FROM files WHERE id = $1 AND org_id = $2 AND run_id = $3 AND call_id = $4 FOR UPDATE`,
		fileID, held.OrganizationID, held.RunID, domain.AttachmentCall)
	if err != nil || len(before) == 0 {
		return false, err
	}

	if p.Image == nil {
		_, err = tx.ExecContext(ctx, `UPDATE files SET prepared = $3, text_id = nullif($4, '') WHERE id = $1 AND org_id = $2`,
			fileID, held.OrganizationID, p.Kind, p.TextID)
		return true, err
	}

	if err := HoldBlobs(ctx, tx, held.OrganizationID, []Blob{blob}, before); err != nil {
		return false, err
	}
	_, err = tx.ExecContext(ctx, `UPDATE files SET prepared = $3, text_id = nullif($4, ''), mime_type = $3, bytes = $5, hash = $6
		WHERE id = $1 AND org_id = $2`, fileID, held.OrganizationID, p.Kind, p.TextID, blob.Bytes, blob.Hash)
	if err != nil {
		return false, err
	}
	return true, RemoveUnlinkedBlobs(ctx, tx, Contents(held.OrganizationID, before))
}

// ForgetUploads removes a principal's uploads for a session. It also removes the contents of these
// uploads, except those to which other rows refer.
func ForgetUploads(ctx context.Context, tx *sqlx.Tx, org, principal, sessionID string) error {
	var gone []Content
	err := tx.SelectContext(ctx, &gone, `DELETE FROM files WHERE org_id = $1 AND principal = $2 AND session_name = $3 AND run_id = ''
		RETURNING org_id, hash`, org, principal, sessionID)
	if err != nil {
		return err
	}
	return RemoveUnlinkedBlobs(ctx, tx, gone)
}

// PruneUploads checks up to limit uploads and attachments that are due for a check, and returns how
// many it checked. The sweeper calls it until the result is below limit. PruneUploads removes
// expired uploads, and attachments of runs that do not exist. The other attachments that are due
// belong to runs that have not started yet; PruneUploads schedules them for another check in a day.
func (s *Store) PruneUploads(ctx context.Context, limit int) (int, error) {
	var due []struct {
		OrganizationID string `db:"org_id"`
		ID             string `db:"id"`
	}
	if err := s.db.SelectContext(ctx, &due, `SELECT org_id, id FROM uploads_to_sweep($1)`, limit); err != nil {
		return 0, fmt.Errorf("looking for uploads: %w", err)
	}
	if len(due) == 0 {
		return 0, nil
	}

	orgs, ids := make([]string, len(due)), make([]string, len(due))
	for i, d := range due {
		orgs[i], ids[i] = d.OrganizationID, d.ID
	}
	err := s.db.Within(ctx, orgs, func(tx *sqlx.Tx) error {
		var gone []Content
		err := tx.SelectContext(ctx, &gone, `DELETE FROM files f USING unnest($1::text[], $2::text[]) AS u (org_id, id)
			WHERE f.id = u.id AND f.org_id = u.org_id AND f.sweep_after <= now()
			AND NOT EXISTS (SELECT 1 FROM runs r WHERE r.id = f.run_id AND r.org_id = f.org_id) RETURNING f.org_id, f.hash`, pq.Array(orgs), pq.Array(ids))
		if err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, `UPDATE files f SET sweep_after = now() + interval '1 day'
			FROM unnest($1::text[], $2::text[]) AS u (org_id, id) WHERE f.id = u.id AND f.org_id = u.org_id AND f.sweep_after <= now()`,
			pq.Array(orgs), pq.Array(ids))
		if err != nil {
			return err
		}
		return RemoveUnlinkedBlobs(ctx, tx, gone)
	})
	if err != nil {
		return 0, fmt.Errorf("removing uploads: %w", err)
	}
	return len(due), nil
}

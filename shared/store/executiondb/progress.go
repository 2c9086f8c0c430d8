package executiondb

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/lib/pq"

	"parley/shared/batch"
	"parley/shared/domain"
	"parley/shared/lifecycle"
	"parley/shared/store/lease"
	"parley/shared/store/pg"
)

// writeKind is a kind of progress write. The values are the names that the SQL function
// write_progress uses.
type writeKind string

// The kinds of writes. See Journal, PrepareEffect, BeginSend, EndSend, CancelSend and VoidEffect.
const (
	writeStep    writeKind = "step"
	writePrepare writeKind = "prepare"
	writeBegin   writeKind = "begin"
	writeEnd     writeKind = "end"
	writeUnsend  writeKind = "unsend"
	writeVoid    writeKind = "void"
)

// The limits of the batches, and of repeated writes.
const (
	maxWrites  = 256     // writes in one batch
	maxWaiting = 1 << 14 // maximum number of waiting writes; a run has at most one for its journal and one for each call

	// If another transaction has locked a run, a write to the run is repeated for up to lockedFor.
	// The first pause is lockedPause; each further pause is twice as long, up to maxLockedPause.
	// Most locks are held for less than lockedPause.
	lockedFor      = 5 * time.Second
	lockedPause    = 5 * time.Millisecond
	maxLockedPause = 100 * time.Millisecond
)

// progressWrite is a write of a worker to the journal or the effect ledger of a run.
type progressWrite struct {
	lease.Held
	kind    writeKind
	n       int           // number of the step
	callID  string        // id of the effect's call
	content []byte        // JSON: the step, the arguments of the call, or its outcome
	effect  domain.Effect // effect to prepare; for the kinds begin and unsend, its key is the sender
}

// size is the approximate number of bytes that the write adds to a statement.
func (w *progressWrite) size() int { return len(w.content) + 256 }

// written is the result of a write.
type written struct {
	done   bool          // false: nothing was written
	effect domain.Effect // effect as prepared
	err    error         // pg.ErrLocked: another transaction has locked the run
	took   time.Duration // time from the request to its result, by the local clock
}

// progressWriter writes the progress of runs in batches. The group combines concurrent writes; it
// runs from the first write until close. Each Store has one writer. The writer is safe for
// concurrent use.
type progressWriter struct {
	connection *pg.Pinned // reserved for the batches

	// The group is nil until the first write. start creates it, or prevents its creation after
	// close.
	group *batch.Group[*progressWrite, written]
	start sync.Once
	stop  context.CancelFunc
	// stopped is closed when the group has ended.
	stopped chan struct{}
}

// newProgressWriter returns a writer. The writer starts no goroutine before its first write.
func newProgressWriter(db *pg.DB) *progressWriter {
	return &progressWriter{connection: pg.NewPinned(db), stopped: make(chan struct{})}
}

// begin starts the group, once. A process that never executes runs therefore needs no goroutine for
// the group.
func (p *progressWriter) begin() {
	p.start.Do(func() {
		p.group = batch.New(maxWrites, maxWaiting, p.writeBatch).Sized(MaxBatchBytes, (*progressWrite).size)
		ctx, cancel := context.WithCancel(context.Background())
		p.stop = cancel
		go func() {
			defer close(p.stopped)
			p.group.Run(ctx)
		}()
	})
}

// close waits for pending writes, and then closes the connection. Later writes fail with
// batch.ErrStopped.
func (p *progressWriter) close() {
	p.start.Do(func() {}) // from now on, begin does not start the group
	if p.group != nil {
		p.stop()
		<-p.stopped
	}
	p.connection.Close()
}

// write submits a write, which is combined with the writes of concurrent callers. If another
// transaction has locked the run, or too many writes wait, write tries again for up to lockedFor.
// After that time it returns pg.ErrLocked or batch.ErrFull. If ctx ends first, the write may still
// take place.
func (p *progressWriter) write(ctx context.Context, w *progressWrite) (written, error) {
	p.begin() //nolint:contextcheck // the group outlives this caller
	if p.group == nil {
		return written{}, batch.ErrStopped // the store was closed before the first write
	}

	// Each caller repeats only its own write, as a part of later batches. A locked run therefore
	// does not delay writes to other runs.
	until := time.Now().Add(lockedFor)
	for pause := lockedPause; ; pause = min(2*pause, maxLockedPause) {
		began := time.Now()
		out, err := p.group.Do(ctx, w)
		out.took = time.Since(began)
		if err == nil {
			err = out.err
		}
		repeat := errors.Is(err, pg.ErrLocked) || errors.Is(err, batch.ErrFull)
		if !repeat || time.Now().After(until) {
			return out, err
		}
		if lifecycle.Sleep(ctx, pause) != nil {
			return written{}, fmt.Errorf("waiting: %w", ctx.Err())
		}
	}
}

// writeBatch executes writes with one statement, or with several if a run has more than one write.
// The results are in the order of writes. If a statement fails, only its writes get the error;
// writeBatch itself returns no error.
func (p *progressWriter) writeBatch(ctx context.Context, writes []*progressWrite) ([]written, error) {
	// The statement accepts one write for each run. Usually each run has only one write, and the
	// loop ends after one statement.
	results := make(map[*progressWrite]written, len(writes))
	until := time.Now().Add(pg.SplitFor)
	for rest := writes; len(rest) > 0; {
		// The writes of one run are made one after the other, in their order.
		var part, later []*progressWrite
		runs := make(map[string]bool, len(rest))
		for _, w := range rest {
			if runs[w.RunID] {
				later = append(later, w)
				continue
			}
			runs[w.RunID] = true
			part = append(part, w)
		}
		p.writePart(ctx, part, results, until)
		rest = later
	}

	out := make([]written, len(writes))
	for i, w := range writes {
		out[i] = results[w]
	}
	return out, nil
}

// writePart executes a list of writes, which must have at most one write per run, and adds the
// results that are not zero to results. If PostgreSQL rejects a write, writePart halves the list
// until it finds that write, so that all other writes are executed. After the time until, a locked
// run no longer makes writePart halve the list.
func (p *progressWriter) writePart(ctx context.Context, part []*progressWrite, results map[*progressWrite]written, until time.Time) {
	rows, err := p.writeRows(ctx, part)
	switch locked := pg.IsLocked(err); {
	case len(part) > 1 && (pg.IsBadData(err) || locked && time.Now().Before(until)):
		p.writePart(ctx, part[:len(part)/2], results, until)
		p.writePart(ctx, part[len(part)/2:], results, until)
		return
	case locked:
		err = pg.ErrLocked
	}

	// A write that is missing in the statement's result had no effect, so its result stays zero.
	byRun := make(map[string]*writtenRow, len(rows))
	for i := range rows {
		byRun[rows[i].RunID] = &rows[i]
	}
	for _, w := range part {
		switch row := byRun[w.RunID]; {
		case err != nil:
			results[w] = written{err: err}
		case row != nil:
			results[w] = row.written(w.callID)
		}
	}
}

// writtenRow is a row of write_progress. If Locked is set, another transaction has locked the run
// and nothing was written.
type writtenRow struct {
	effectRow

	RunID  string `db:"run_id"`
	Locked bool   `db:"locked"`
}

// written converts the row to the result of the write to the call callID, which the row does not
// contain.
func (row *writtenRow) written(callID string) written {
	if row.Locked {
		return written{err: pg.ErrLocked}
	}
	row.CallID = callID
	return written{done: true, effect: row.effect()} // the effect is empty unless this write prepared it
}

// writeQuery calls the function of migrations/functions/write_progress.sql.
const writeQuery = `SELECT run_id, locked, coalesce(name, '') AS name, input, coalesce(side_effect, '') AS side_effect, coalesce(key, '') AS key,
	coalesce(state, '') AS state, outcome, sent FROM write_progress($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)`

// writeRows executes writes with one statement, which waits for no lock on a run.
func (p *progressWriter) writeRows(ctx context.Context, part []*progressWrite) ([]writtenRow, error) {
	// The arrays are parallel, and each kind of write uses only some of them.
	column := func(value func(w *progressWrite) string) any {
		return pq.Array(pg.Column(part, func(w **progressWrite) string { return value(*w) }))
	}

	var rows []writtenRow
	err := p.connection.SelectInto(ctx, &rows, writeQuery,
		column(func(w *progressWrite) string { return string(w.kind) }),
		column(func(w *progressWrite) string { return w.RunID }),
		column(func(w *progressWrite) string { return w.OrganizationID }),
		pq.Array(pg.Column(part, func(w **progressWrite) int64 { return (*w).Fence })),
		pq.Array(pg.Column(part, func(w **progressWrite) int64 { return int64((*w).n) })),
		column(func(w *progressWrite) string { return w.callID }),
		column(func(w *progressWrite) string { return string(w.content) }),
		column(func(w *progressWrite) string { return w.effect.Name }),
		column(func(w *progressWrite) string { return string(w.effect.SideEffect) }),
		column(func(w *progressWrite) string { return w.effect.Key }),
		column(func(w *progressWrite) string { return string(w.effect.State) }))
	if err != nil {
		return nil, fmt.Errorf("writing progress: %w", err)
	}
	return rows, nil
}

package queuedb

import (
	"parley/shared/domain"
)

type jobRow struct {
	RunID          string `db:"run_id"`
	OrganizationID string `db:"org_id"`
	Lane           string `db:"lane"`
	Dedupe         string `db:"dedupe"`
	DispatchNo     int    `db:"dispatch_no"`
	ReplyTo        string `db:"reply_to"`
	Traceparent    string `db:"traceparent"`
}

const jobColumns = `o.run_id, o.org_id, o.lane, o.dedupe, o.dispatch_no, o.reply_to, o.traceparent`

func jobs(rows []jobRow) []domain.Job {
	out := make([]domain.Job, len(rows))
	for i, r := range rows {
		out[i] = domain.Job{
			RunID: r.RunID, OrganizationID: r.OrganizationID, Lane: domain.Lane(r.Lane), Dedupe: r.Dedupe,
			DispatchNo: r.DispatchNo, ReplyTo: r.ReplyTo, Traceparent: r.Traceparent,
		}
	}
	return out
}

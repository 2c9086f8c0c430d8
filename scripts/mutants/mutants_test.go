package mutants

// edit replaces a text that occurs exactly once in a file. The file's path is relative to the root
// of the repository.
type edit struct{ file, old, new string }

// mutant is the product without one rule. With the mutant, at least one of its tests must fail.
// Without the mutant, all of its tests must pass.
type mutant struct {
	name  string
	edits []edit
	in    string // path of the package with the tests, relative to the repository; its first element is the module
	tests []string
}

const (
	effects   = "shared/store/executiondb/effects.go"
	sweeping  = "shared/store/executiondb/sweep.go"
	executing = "workers/internal/runner/execute.go"
	slotsFile = "shared/store/queuedb/slots.go"
	waiting   = "ingress/internal/dispatch/waiters.go"
	remote    = "workers/internal/toolset/remote.go"
	naming    = "shared/contract/contract.go"
)

// sql returns the path of the file that defines an SQL function.
func sql(function string) string { return "migrations/functions/" + function + ".sql" }

var all = []mutant{
	{
		"a finish without its fence",
		[]edit{{sql("end_lane_runs"), "WHERE o.run_id = e.id AND o.fence = e.fence\n    RETURNING", "WHERE o.run_id = e.id\n    RETURNING"}},
		"shared/store",
		[]string{"TestFenceKeepsATakenRunFromItsOldWorker", "TestOnlyALeaseThatIsOverIsTaken"},
	},
	{
		"a step without its fence",
		[]edit{{sql("write_progress"), "WHERE o.fence = a.fence AND o.status = 'running' OR a.kind IN ('end', 'unsend')", "WHERE o.status = 'running' OR a.kind IN ('end', 'unsend')"}},
		"shared/store",
		[]string{"TestFenceKeepsATakenRunFromItsOldWorker"},
	},
	{
		"an effect without its fence",
		[]edit{{sql("write_progress"), "WHERE o.fence = a.fence AND o.status = 'running' OR a.kind IN ('end', 'unsend')", "WHERE o.fence = a.fence AND o.status = 'running' OR a.kind IN ('end', 'unsend', 'prepare')"}},
		"shared/store",
		[]string{"TestAnEffectContinuesInItsState"},
	},
	{
		"a write in the name of another organization",
		[]edit{{sql("write_progress"), "JOIN open o ON o.run_id = a.run_id AND o.org_id = a.org_id", "JOIN open o ON o.run_id = a.run_id"}},
		"shared/store",
		[]string{"TestWritesBesideTheOwnersAreRefused"},
	},
	{
		"a rejected write that fails its batch",
		[]edit{{"shared/store/executiondb/progress.go", "(pg.IsBadData(err) || locked && time.Now().Before(until))", "locked && time.Now().Before(until)"}},
		"shared/store",
		[]string{"TestARejectedWriteSparesItsNeighbours"},
	},
	{
		"a heartbeat without its fence",
		[]edit{{sql("extend_leases"), "USING (run_id, fence)\n    WHERE o.status = 'running' ORDER BY", "USING (run_id)\n    WHERE o.status = 'running' ORDER BY"}},
		"shared/store",
		[]string{"TestFenceKeepsATakenRunFromItsOldWorker"},
	},
	{
		"a requeue without its fence",
		[]edit{{"shared/store/executiondb/requeue.go", "SELECT o.run_id, o.fence FROM open_runs o JOIN asked USING (run_id, fence)", "SELECT o.run_id, asked.fence FROM open_runs o JOIN asked USING (run_id)"}},
		"shared/store",
		[]string{"TestFenceKeepsATakenRunFromItsOldWorker"},
	},
	{
		"events without their fence",
		[]edit{{sql("save_run_events"), "WHERE (o.fence = c.fence) IS TRUE AND o.status = 'running'", "WHERE o.status = 'running'"}},
		"shared/store",
		[]string{"TestOnlyTheHolderWritesEvents"},
	},
	{
		"a source without its fence",
		[]edit{{"shared/store/lease/lease.go", "WHERE run_id = $1 AND org_id = $2 AND fence = $3 AND status = 'running' FOR SHARE", "WHERE run_id = $1 AND org_id = $2 AND $3::bigint > 0 AND status = 'running' FOR SHARE"}},
		"shared/store",
		[]string{"TestAnEffectContinuesInItsState"},
	},
	{
		"a wait for a person without its fence",
		[]edit{{"shared/store/executiondb/park.go", "WHERE run_id = $1 AND org_id = $2 AND fence = $3 AND status = 'running' FOR UPDATE", "WHERE run_id = $1 AND org_id = $2 AND $3::bigint > 0 AND status = 'running' FOR UPDATE"}},
		"shared/store",
		[]string{"TestAnEffectContinuesInItsState"},
	},
	{
		"an outcome without its fence",
		[]edit{{
			sql("write_progress"),
			"AND e.fence = m.fence AND e.state = 'sending'\n    RETURNING e.run_id\n  ), unsent", "AND e.state = 'sending'\n    RETURNING e.run_id\n  ), unsent",
		}},
		"shared/store",
		[]string{"TestAnEffectContinuesInItsState"},
	},
	{
		"a cancelled send without its fence",
		[]edit{{
			sql("write_progress"),
			"AND e.fence = m.fence AND e.state = 'sending' AND e.sender = m.key", "AND e.state = 'sending' AND e.sender = m.key",
		}},
		"shared/store",
		[]string{"TestTheNextAttemptMakesACallThatWasNotSent"},
	},
	{
		"a cancelled send of another execution",
		[]edit{{sql("write_progress"), "AND e.state = 'sending' AND e.sender = m.key", "AND e.state = 'sending'"}},
		"shared/store",
		[]string{"TestTheNextAttemptMakesACallThatWasNotSent"},
	},
	{
		"a send after the lease has expired",
		[]edit{{sql("write_progress"), "AND e.state = 'ready' AND m.lease_until > clock_timestamp()", "AND e.state = 'ready'"}},
		"shared/store",
		[]string{"TestNothingIsSentPastTheLease"},
	},
	{
		"a second send",
		[]edit{{sql("write_progress"), "AND e.state = 'ready' AND m.lease_until", "AND e.state IN ('ready', 'sending') AND m.lease_until"}},
		"shared/store",
		[]string{"TestOnlyOneOfManySendersMaySend", "TestAnEffectContinuesInItsState"},
	},
	{
		"unsafe effects are sent again by the next attempt",
		[]edit{{sql("write_progress"), "e.state = 'sending' AND e.side_effect <> 'unsafe' THEN", "e.state = 'sending' THEN"}},
		"shared/store",
		[]string{"TestAnEffectContinuesInItsState", "TestALateSenderAndTheNextAttemptAgree"},
	},
	{
		"a claim keeps the fence",
		[]edit{{sql("claim_runs"), "fence = o.fence + 1, attempts = o.attempts + 1", "fence = greatest(o.fence, 1), attempts = o.attempts + 1"}},
		"shared/store",
		[]string{"TestOnlyALeaseThatIsOverIsTaken"},
	},
	{
		"a claim of a run that another worker holds",
		[]edit{{sql("claim_runs"), "OR o.status = 'running' AND o.lease_until < clock_timestamp()\n          AND pg_postmaster_start_time()", "OR o.status = 'running'\n          AND pg_postmaster_start_time()"}},
		"shared/store",
		[]string{"TestOnlyALeaseThatIsOverIsTaken"},
	},
	{
		"a database outage takes runs from their workers",
		[]edit{{sql("claim_runs"), "AND o.lease_until < clock_timestamp()\n          AND pg_postmaster_start_time() < clock_timestamp() - $2::interval)", "AND o.lease_until < clock_timestamp())"}},
		"shared/store",
		[]string{"TestFenceKeepsATakenRunFromItsOldWorker"},
	},
	{
		"a claim out of order",
		[]edit{{sql("claim_runs"), "AND NOT EXISTS (SELECT 1 FROM open_runs p WHERE p.session_ref = o.session_ref\n        AND p.seq BETWEEN coalesce(o.waits_for, 0) AND coalesce(o.waits_for, o.seq - 1))\n    RETURNING o.*", "RETURNING o.*"}},
		"shared/store",
		[]string{"TestRunsOfASessionGoOneAfterTheOther"},
	},
	{
		"a claim of a branch that waits for other branches",
		[]edit{{sql("claim_runs"), "AND p.seq BETWEEN coalesce(o.waits_for, 0) AND coalesce(o.waits_for, o.seq - 1))\n    RETURNING", "AND p.seq < o.seq)\n    RETURNING"}},
		"shared/store",
		[]string{"TestBranchesDoNotWaitForEachOther"},
	},
	{
		"a claim of a branch that does not wait for the run that it continues",
		[]edit{{sql("claim_runs"), "AND p.seq BETWEEN coalesce(o.waits_for, 0) AND coalesce(o.waits_for, o.seq - 1))\n    RETURNING", "AND p.seq < o.seq AND o.waits_for IS NULL)\n    RETURNING"}},
		"shared/store",
		[]string{"TestBranchesWaitForTheRunThatTheyContinue"},
	},
	{
		"a finish that does not count the branches that waited for it",
		[]edit{{sql("end_lane_runs"), "WHERE n.waits_for = f.seq", "WHERE n.waits_for > f.seq"}},
		"shared/store",
		[]string{"TestAFinishCountsTheBranchesThatWaitForIt", "TestBranchesWaitForTheRunThatTheyContinue"},
	},
	{
		"a message that cancels the stopped runs of other branches",
		[]edit{{"ingress/internal/readers/memory.go", "if n.previous != \"\" {", "if false {"}},
		"ingress/internal/readers",
		[]string{"TestTheNextMessageEndsEarlierRuns"},
	},
	{
		"a void claim keeps its slot",
		[]edit{{sql("void_claims"), "UPDATE open_runs SET dispatched = false, next_dispatch_at = NULL\n", "UPDATE open_runs SET next_dispatch_at = NULL\n"}},
		"shared/store",
		[]string{"TestAVoidClaimReleasesItsSlot"},
	},
	{
		"a key that does not prevent a second run",
		[]edit{
			{sql("accept_runs"), "      AND (NOT EXISTS (SELECT 1 FROM runs k WHERE k.idempotency_hash = b.key_hash)) IS NOT FALSE\n", ""},
			{sql("accept_runs"), "    ON CONFLICT (idempotency_hash) WHERE idempotency_hash IS NOT NULL DO NOTHING\n    RETURNING id, created_at\n", "    RETURNING id, created_at\n"},
		},
		"shared/store",
		[]string{"TestAcceptGivesOneRunPerKeyInASession"},
	},
	{
		"a key that does not prevent a second run in a new session",
		[]edit{{sql("accept_single_runs"), "    ON CONFLICT (idempotency_hash) WHERE idempotency_hash IS NOT NULL DO NOTHING\n    RETURNING id, session_ref", "    RETURNING id, session_ref"}},
		"shared/store",
		[]string{"TestAcceptGivesOneRunPerKeyUnderConcurrency"},
	},
	{
		"an acceptance that exceeds the dispatch limit",
		[]edit{{sql("accept_single_runs"), "(PARTITION BY u.org_no, u.lane ORDER BY u.turn) <= ($3)[u.turn + 1] AS dispatch", "(PARTITION BY u.org_no, u.lane ORDER BY u.turn) > 0 AS dispatch"}},
		"shared/store",
		[]string{"TestLimitBoundsDispatchedRunsAndFinishPassesSlotsOn"},
	},
	{
		"a finish that does not pass its slot on",
		[]edit{{sql("end_lane_runs"), "f.lane, f.dispatched AND f.others_wait", "f.lane, NOT f.dispatched AND f.others_wait"}},
		"shared/store",
		[]string{"TestLimitBoundsDispatchedRunsAndFinishPassesSlotsOn"},
	},
	{
		"a sweeper that requeues runs with a valid lease",
		[]edit{
			{sql("lost_runs"), "WHERE o.dispatched AND o.status = 'running' AND o.lease_until < clock_timestamp()\n      AND pg_postmaster", "WHERE o.dispatched AND o.status = 'running'\n      AND pg_postmaster"},
			{"shared/store/executiondb/sweep.go", "AND status = 'running' AND lease_until < clock_timestamp()", "AND status = 'running'"},
		},
		"shared/store",
		[]string{"TestOnlyALeaseThatIsOverIsTaken"},
	},
	{
		"a sweeper that does not count deaths",
		[]edit{{"shared/store/executiondb/sweep.go", "fence = fence + 1, deaths = deaths + 1", "fence = fence + 1"}},
		"shared/store",
		[]string{"TestOnlyALeaseThatIsOverIsTaken"},
	},
	{
		"a sweeper that times out runs that wait for a person",
		[]edit{
			{sql("overdue_runs"), "WHERE o.deadline <= clock_timestamp() AND o.status <> 'requires_action') f", "WHERE o.deadline <= clock_timestamp()) f"},
			{"shared/store/executiondb/sweep.go", "AND o.deadline <= clock_timestamp()\n\t\t\tAND o.status <> 'requires_action' ORDER BY", "AND o.deadline <= clock_timestamp() ORDER BY"},
		},
		"shared/store",
		[]string{"TestAParkedRunKeepsItsSessionAndNothingElse"},
	},
	{
		"a sweeper that republishes jobs without checking the runs again",
		[]edit{
			{sql("unclaimed_runs"), "WHERE o.dispatched AND o.status = 'queued' AND o.next_dispatch_at <= clock_timestamp()) f", "WHERE o.dispatched) f"},
			{"shared/store/queuedb/dispatch.go", "UPDATE open_runs o SET dispatch_no = o.dispatch_no + 1, dispatched_at = clock_timestamp(),\n\t\t\tnext_dispatch_at = clock_timestamp() + least($2::interval * power(2, least(o.dispatch_no, 10)), interval '5 minutes')\n\t\t\tWHERE o.run_id IN (SELECT run_id FROM open_runs\n\t\t\t  WHERE run_id = ANY ($1) AND dispatched AND status = 'queued' AND next_dispatch_at <= clock_timestamp()", "UPDATE open_runs o SET dispatch_no = o.dispatch_no + 1, dispatched_at = clock_timestamp(),\n\t\t\tnext_dispatch_at = clock_timestamp() + least($2::interval * power(2, least(o.dispatch_no, 10)), interval '5 minutes')\n\t\t\tWHERE o.run_id IN (SELECT run_id FROM open_runs\n\t\t\t  WHERE run_id = ANY ($1)"},
		},
		"workers/internal/sweep",
		[]string{"TestJobMessagesOfARecreatedStreamArePublished"},
	},
	{
		"a sweeper that does not republish jobs",
		[]edit{{"workers/internal/sweep/sweep.go", "s.dispatchWaiting, s.notifyAgain, s.endDocuments", "s.dispatchWaiting, s.endDocuments"}},
		"workers/internal/sweep",
		[]string{"TestJobMessagesOfARecreatedStreamArePublished"},
	},
	{
		"a message id without the dispatch number",
		[]edit{{naming, `return j.Dedupe + ":" + strconv.Itoa(j.DispatchNo)`, "return j.Dedupe"}},
		"shared/bus",
		[]string{"TestADispatchPublishesOnceAndARedispatchAgain"},
	},
	{
		"a message id that organizations share",
		[]edit{{naming, "sum := Hash(org, string(endpoint), keyOrRunID)", `sum := Hash(org[:0], string(endpoint), keyOrRunID)`}},
		"shared/contract",
		[]string{"TestMessageIDsAreThoseOfADispatch"},
	},
	{
		"a reply before the commit",
		[]edit{{executing, "\t\tsaved, err := r.finishes.Do(", "\t\tr.bus.Done(a.claim.RunID, a.replyTo, outcome.Result)\n\t\tsaved, err := r.finishes.Do("}},
		"workers/internal/runner",
		[]string{"TestAResultIsPublishedAfterItIsSaved"},
	},
	{
		"an attempt that outlives its lease",
		[]edit{{"workers/internal/leased/set.go", "if now.After(a.leaseUntil) {", "if now.After(a.leaseUntil.AddDate(1, 0, 0)) {"}},
		"workers/internal/leased",
		[]string{"TestAnAttemptEndsWithItsLease"},
	},
	{
		"a job message before the commit",
		[]edit{{
			"ingress/internal/dispatch/dispatch.go", "\taccepted, err := d.store.Queue.Accept(ctx, rows)\n",
			"\tfor _, r := range rows {\n\t\td.bus.PublishJobs(domain.Job{RunID: r.ID, OrganizationID: r.OrganizationID, Lane: r.Lane, Dedupe: r.Dedupe, DispatchNo: 1})\n\t}\n" +
				"\taccepted, err := d.store.Queue.Accept(ctx, rows)\n",
		}},
		"ingress/internal/dispatch",
		[]string{"TestOnlyAcceptedRunsGetJobMessages"},
	},
	{
		"a wait that begins without reading the run",
		[]edit{{waiting, "\tws.look(runID)\n\treturn w\n", "\treturn w\n"}},
		"ingress/internal/dispatch",
		[]string{"TestAttachingReadsTheRunAgain"},
	},
	{
		"a wait without polling",
		[]edit{{waiting, "ws.read(ctx, ws.takeDue(true))", "ws.read(ctx, ws.takeDue(false))"}},
		"ingress/internal/dispatch",
		[]string{"TestAWaitEndsWhenItsRunIsParked"},
	},
	{
		"unsafe effects are sent again by the same attempt",
		[]edit{{remote, "if r.spec.SideEffect == domain.SideEffectUnsafe {", `if r.spec.SideEffect == "never" {`}},
		"workers/internal/toolset",
		[]string{"TestCalls"},
	},
	{
		"a separate idempotency key for each attempt",
		[]edit{{remote, "key := contract.EffectKey(r.run.RunID, call.ID)", "key := contract.EffectKey(r.run.RunID, fmt.Sprint(call.ID, r.run.Fence))"}},
		"workers/internal/toolset",
		[]string{"TestCalls"},
	},
	{
		"a send that is not recorded in the tool ledger",
		[]edit{{"workers/internal/tool/httprequest/request.go", "if req.Sending != nil {\n\t\tctx =", "if req.Sending != nil && ctx == nil {\n\t\tctx ="}},
		"workers/internal/tool/httprequest",
		[]string{"TestNothingLeavesForARunThatIsLost"},
	},
	{
		"a tool call before its turn is journaled",
		[]edit{{"workers/internal/agentloop/run.go", "if err := r.record(ctx, Step{Kind: StepModelTurn, Turn: t}); err != nil {", "if err := ctx.Err(); err != nil {"}},
		"workers/internal/agentloop",
		[]string{"TestResume"},
	},
	{
		"a cited value that stands inside a longer word",
		[]edit{{"workers/internal/agentloop/value.go", "return p.folded.index(wanted, true)", "return p.folded.index(wanted, false)"}},
		"workers/internal/agentloop",
		[]string{"TestValuesInSources", "TestCitedValuesStandInTheirSource"},
	},
	{
		"a cited number inside a longer one",
		[]edit{{"workers/internal/agentloop/value.go", "if to-from > maxNumeral || !isWholeNumber(text, from, to) {", "if to-from > maxNumeral {"}},
		"workers/internal/agentloop",
		[]string{"TestValuesInSources"},
	},
	{
		"an answer that is not checked with its schema",
		[]edit{{"workers/internal/agentloop/output.go", "bare := c.Schema.Mismatches(answer)\n", "bare := c.Schema.Mismatches(answer)[:0]\n"}},
		"workers/internal/agentloop",
		[]string{"TestAnswersMatchTheirSchema", "TestGeneratedSchemas"},
	},
	{
		"a batch that waits for locked rows",
		[]edit{{"shared/store/pg/batch.go", "BatchLockTimeout = 50 * time.Millisecond", "BatchLockTimeout = 30 * time.Second"}},
		"shared/store",
		[]string{"TestALockedSessionDelaysItsOwnRunAlone", "TestALockedRunDelaysItsOwnEndAlone", "TestALockedSessionDelaysItsOwnDeliveryAlone"},
	},
	{
		"a batch that fails because of locked rows",
		[]edit{{"shared/store/queuedb/accept.go", "case len(rows) > 1 && (pg.IsBadData(err) || pg.IsLocked(err)):", "case len(rows) > 1 && pg.IsBadData(err):"}},
		"shared/store",
		[]string{"TestALockedKeyDelaysItsOwnRunAlone"},
	},
	{
		"a finish that fails because of locked rows",
		[]edit{{"shared/store/executiondb/finish.go", "FOR UPDATE OF o, r SKIP LOCKED", "FOR UPDATE OF o SKIP LOCKED"}, {"shared/store/executiondb/finish.go", "case !pg.IsBadData(err) && !pg.IsLocked(err):", "case !pg.IsBadData(err):"}},
		"shared/store",
		[]string{"TestALockedRunDelaysItsOwnEndAlone"},
	},
	{
		"a claim that waits for locked rows",
		[]edit{{sql("claim_runs"), "ORDER BY run_id FOR UPDATE SKIP LOCKED\n  ), claimed AS", "ORDER BY run_id FOR UPDATE\n  ), claimed AS"}},
		"shared/store",
		[]string{"TestALockedRunIsClaimedLater"},
	},
	{
		"a heartbeat that waits for locked rows",
		[]edit{{sql("extend_leases"), "ORDER BY o.run_id FOR UPDATE OF o SKIP LOCKED", "ORDER BY o.run_id FOR UPDATE OF o"}},
		"shared/store",
		[]string{"TestALockedLeaseIsNotLost"},
	},
	{
		"a locked lease that counts as lost",
		[]edit{{sql("extend_leases"), "WHERE o.status = 'running' AND o.run_id NOT IN", "WHERE o.status = 'parked' AND o.run_id NOT IN"}},
		"shared/store",
		[]string{"TestALockedLeaseIsNotLost"},
	},
	{
		"a worker that gives up locked runs",
		[]edit{{"workers/internal/leased/heartbeat.go", "\t\t\tstillLocked = append(stillLocked, a)\n", "\t\t\ta.cancel(ErrTaken)\n"}},
		"workers/internal/leased",
		[]string{"TestALockedHeartbeatIsRepeated"},
	},
	{
		"the claim of a locked run is not repeated",
		[]edit{{executing, "\t\tcase !claim.Locked:\n", "\t\tcase true:\n"}},
		"workers/internal/runner",
		[]string{"TestTheClaimOfALockedRunIsRepeated"},
	},
	{
		"a worker that cannot claim runs fetches jobs",
		[]edit{{executing, "slow := time.AfterFunc(slowClaim, r.database.close)", "slow := time.AfterFunc(slowClaim, func() {})"}},
		"workers/internal/runner",
		[]string{"TestAWorkerWithoutADatabaseFetchesNothing"},
	},
	{
		"a locked run's result is dropped",
		[]edit{{executing, "failed: finished.Failed[id]}", "failed: nil}"}},
		"workers/internal/runner",
		[]string{"TestALockedResultIsSavedOnceItsRunIsFree"},
	},
	{
		"an expired key that only the process that freed it replaces",
		[]edit{
			{"shared/store/queuedb/accept_losers.go", "if call.tries++; call.tries == acceptTries {", "if call.tries++; freed == 0 || call.tries == acceptTries {"},
			{"shared/store/queuedb/accept_losers.go", "out[i] = Accepted{Err: pg.ErrLocked}", "out[i] = Accepted{Err: pg.NotFound()}"},
		},
		"shared/store",
		[]string{"TestAnExpiredKeyIsReplacedOnce"},
	},
	{
		"an organization's lanes that share their slots",
		[]edit{
			{slotsFile, "s.lane(lane.Lane).add(lane.OrganizationID, n)", "s.lane(domain.LaneChat).add(lane.OrganizationID, n)"},
			{slotsFile, "l := s.lane(lane.Lane)\n\troom :=", "l := s.lane(domain.LaneChat)\n\troom :="},
		},
		"shared/store",
		[]string{"TestChatsDoNotWaitForAutomations"},
	},
	{
		"a freed slot that goes to any lane",
		[]edit{{sql("dispatch_runs"), "WHERE w.org_id = f.org_id AND w.lane = f.lane\n          AND w.status = 'queued' AND NOT w.dispatched AND w.not_before IS NULL AND w.run_id >= oldest\n        ORDER BY w.run_id LIMIT 256) w", "WHERE w.org_id = f.org_id\n          AND w.status = 'queued' AND NOT w.dispatched AND w.not_before IS NULL\n        ORDER BY w.run_id LIMIT 256) w"}},
		"shared/store",
		[]string{"TestFreedSlotGoesToItsLane"},
	},
	{
		"a freed slot that goes only to its lane",
		[]edit{{"shared/store/queuedb/dispatch.go", "(l.branches || freed[other].Slots == 0)", "l.branches"}},
		"shared/store",
		[]string{"TestSlotOfAnotherLaneDispatchesTheSessionsNextRun"},
	},
	{
		"a freed slot that goes to the organization with the most runs",
		[]edit{{slotsFile, "cmp.Compare(l.runs[a], l.runs[b])", "cmp.Compare(l.runs[b], l.runs[a])"}},
		"shared/store/queuedb",
		[]string{"TestFreedSlotsGoToTheOrganizationWithTheFewestRuns"},
	},
	{
		"a reserve for everybody",
		[]edit{{slotsFile, "return s.belowShare(l, org)", "return true"}},
		"shared/store/queuedb",
		[]string{"TestReserveIsForOrganizationsBelowTheirShare"},
	},
	{
		"delayed runs that count as waiting",
		[]edit{
			{sql("dispatch_runs"), "AND w.status = 'queued' AND NOT w.dispatched AND w.not_before IS NULL AND w.run_id >= oldest\n        ORDER BY w.run_id LIMIT 256) w", "AND w.status = 'queued' AND NOT w.dispatched AND w.run_id >= oldest\n        ORDER BY w.run_id LIMIT 256) w"},
			{sql("dispatch_runs"), "CROSS JOIN LATERAL (SELECT o.run_id FROM open_runs o WHERE o.run_id = w.run_id\n        AND (o.status = 'queued' AND NOT o.dispatched AND o.not_before IS NULL) IS TRUE\n        AND NOT EXISTS (SELECT 1 FROM open_runs p WHERE p.session_ref = o.session_ref\n          AND p.seq BETWEEN coalesce(o.waits_for, 0) AND coalesce(o.waits_for, o.seq - 1))\n        FOR UPDATE OF o SKIP LOCKED) l\n      LIMIT f.places\n", "CROSS JOIN LATERAL (SELECT o.run_id FROM open_runs o WHERE o.run_id = w.run_id\n        AND (o.status = 'queued' AND NOT o.dispatched) IS TRUE\n        AND NOT EXISTS (SELECT 1 FROM open_runs p WHERE p.session_ref = o.session_ref\n          AND p.seq BETWEEN coalesce(o.waits_for, 0) AND coalesce(o.waits_for, o.seq - 1))\n        FOR UPDATE OF o SKIP LOCKED) l\n      LIMIT f.places\n"},
			{sql("find_waiting_lanes"), "SELECT o.org_id, o.lane, o.run_id FROM open_runs o WHERE o.status = 'queued' AND NOT o.dispatched AND o.not_before IS NULL\n      ORDER BY o.org_id, o.lane, o.run_id LIMIT 1)\n    UNION", "SELECT o.org_id, o.lane, o.run_id FROM open_runs o WHERE o.status = 'queued' AND NOT o.dispatched\n      ORDER BY o.org_id, o.lane, o.run_id LIMIT 1)\n    UNION"},
		},
		"shared/store",
		[]string{"TestDelayedRunsAreNotWaiting"},
	},
	{
		"a delayed run that is never released",
		[]edit{{sql("release_delayed_runs"), "WHERE o.not_before <= now() AND o.status = 'queued' ORDER BY o.not_before", "WHERE o.not_before <= now() - interval '1 day' AND o.status = 'queued' ORDER BY o.not_before"}},
		"shared/store",
		[]string{"TestDelayedRunIsDispatchedInTime"},
	},
	{
		"a hint about waiting lanes that is not corrected",
		[]edit{{sql("find_waiting_lanes"), "f.run_id FROM found f\n    WHERE NOT EXISTS (SELECT FROM waiting_lanes k WHERE k.org_id = f.org_id", "f.run_id FROM found f\n    WHERE false AND NOT EXISTS (SELECT FROM waiting_lanes k WHERE k.org_id = f.org_id"}},
		"shared/store",
		[]string{"TestWaitingLanesRepairThemselves"},
	},
	{
		"a top-up that uses an old count",
		[]edit{{"shared/store/queuedb/dispatch.go", "\ts.slots.forget()\n", ""}},
		"shared/store",
		[]string{"TestTopUpFillsFreeSlots"},
	},
	{
		"a count of dispatched runs for each accepted run",
		[]edit{{"shared/store/queuedb/slots.go", "slotsCounted = 100 * time.Millisecond", "slotsCounted = 0 * time.Millisecond"}, {"shared/store/queuedb/slots.go", "slotsFull    = 50 * time.Millisecond", "slotsFull    = 0 * time.Millisecond"}, {"shared/store/queuedb/slots.go", "slotsDuty    = 20 ", "slotsDuty    = 0 "}},
		"shared/store",
		[]string{"TestLongSnapshotDoesNotSlowDispatch"},
	},
	{
		"overdue runs of one organization before all others",
		[]edit{{sql("overdue_runs"), "  SELECT f.run_id, f.org_id FROM (SELECT o.run_id, o.org_id, row_number() OVER (PARTITION BY o.org_id ORDER BY o.deadline, o.run_id) AS n", "  SELECT f.run_id, f.org_id FROM (SELECT o.run_id, o.org_id, row_number() OVER (ORDER BY o.deadline, o.run_id) AS n"}},
		"shared/store",
		[]string{"TestOverdueRunsOfOrganizationsEndInTurn"},
	},
	{
		"a sweeper that takes runs after a clock step",
		[]edit{{"workers/internal/sweep/clock.go", "s.clock.grace = time.Now().Add(lease.Lease)", "s.clock.grace = time.Now().Add(-lease.Lease)"}},
		"workers/internal/sweep",
		[]string{"TestWorkersGetTimeAfterAStepOfTheClock"},
	},
	{
		"a promoted standby that sweepers do not notice",
		[]edit{{"workers/internal/sweep/clock.go", "&& now.Started.Equal(old.seen.Started) {", "{"}},
		"workers/internal/sweep",
		[]string{"TestWorkersGetTimeAfterAStepOfTheClock"},
	},
	{
		"a lease that a clock step has prolonged",
		[]edit{{"shared/store/executiondb/clock.go", "AND lease_until > clock_timestamp() + $1::interval + interval '1 second'", "AND lease_until < clock_timestamp() - $1::interval - interval '1 second'"}},
		"workers/internal/sweep",
		[]string{"TestLeasesAreShortenedWhenTheClockIsSetBack"},
	},
	{
		"a statement of unlimited size",
		[]edit{{"shared/store/executiondb/finish.go", "bytes > MaxBatchBytes && i > 0", "bytes > MaxBatchBytes && i < 0"}},
		"shared/store",
		[]string{"TestAStatementIsBoundedInBytes"},
	},
	{
		"a batch of unlimited size",
		[]edit{{"shared/batch/batch.go", "g.size != nil && size > g.maxSize", "g.size != nil && size < 0"}},
		"shared/batch",
		[]string{"TestGroupLimitsTheSizeOfABatch"},
	},
	{
		"a delivery with the body of another",
		[]edit{{sql("accept_deliveries"), "substring(bodies FROM body_starts[n]", "substring(bodies FROM 1"}},
		"shared/store",
		[]string{"TestDeliveriesOfABatchKeepTheirBodiesAndInputs"},
	},
}

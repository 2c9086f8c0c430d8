package store_test

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"parley/shared/contract"
	"parley/shared/domain"
	"parley/shared/id"
	"parley/shared/store"
	"parley/shared/store/accountdb"
	"parley/shared/store/blobdb"
	"parley/shared/store/executiondb"
	"parley/shared/store/hookdb"
	"parley/shared/store/knowledgedb"
	"parley/shared/store/lease"
	"parley/shared/store/notificationdb"
	"parley/shared/store/pg"
	"parley/shared/store/queuedb"
	"parley/shared/store/rundb"
	"parley/shared/store/sealdb"
	"parley/shared/store/sessiondb"
	"parley/shared/store/usagedb"
	"parley/shared/testkit"
)

// organization is an organization that has one resource of every kind.
type organization struct {
	*testEnv
	canary  string // text that occurs in every text of the organization
	ended   string // finished run in session "s", with the key "k" and seq 1
	held    lease.Held
	waiting string
	parked  string // run that waits for a decision about the call "c"
	source  string
	file    string
	doc     string
	ref     int64 // number of session "s"
	key     string
	hook    string // hook with the delivery "d"

	endpoint     string
	notification string // notification about the finished run
}

func newOrganization(t *testing.T, s *store.Store, raw *sql.DB, name string) *organization {
	t.Helper()
	b := newEnvOn(t, s, raw, name+"@example.com")
	o := &organization{testEnv: b, canary: "canary-of-" + name}
	ctx := t.Context()
	if _, err := s.Agents.UpdateAgent(ctx, b.org, b.agent, 0, func(a *domain.Agent) error { a.Name, a.SystemPrompt = o.canary, o.canary; return nil }); err != nil {
		t.Fatal(err)
	}
	o.endpoint = b.endpointFor().ID
	run := func(key, session string) queuedb.NewRun {
		r := b.run(key, session)
		r.Input, r.AutomationID = fmt.Appendf(nil, `{"message":%q}`, o.canary), o.canary
		return r
	}
	o.ended = b.accept(wideWindow, run("k", "s"))[0].Run.Run.ID
	first := b.mustClaim(o.ended)
	o.ref = first.SessionRef
	b.finish(first, o.canary)
	b.must(raw.QueryRowContext(ctx, `SELECT id FROM notifications WHERE org_id = $1`, b.org).Scan(&o.notification))
	o.held = b.mustClaim(b.accept(wideWindow, run("", "s"))[0].Run.Run.ID).Held()
	o.waiting = b.accept(1, run("", ""))[0].Run.Run.ID
	o.callTools(run("", ""))
	if ok, err := s.Executions.Journal(ctx, o.held, 1, fmt.Appendf(nil, `{"text":%q}`, o.canary)); err != nil || !ok {
		t.Fatalf("journal: %v, %v", ok, err)
	}
	chunk := executiondb.Chunk{FirstN: 2, LastN: 2, Events: `message.delta {"text":"` + o.canary + `"}`}
	if kept, err := s.Executions.SaveEvents(ctx, []executiondb.Checkpoint{{Held: o.held, Chunk: chunk}}); err != nil || !kept.Saved[o.held.RunID] {
		t.Fatalf("events: %v, %v", kept, err)
	}
	b.exec(`INSERT INTO run_attempts (run_id, fence, org_id, kind, attempt, began_at, ended_at, status, message)
		VALUES ($1, 1, $2, 'attempt', 1, $4, $4, 'failed', $3)`, o.held.RunID, b.org, o.canary, time.Now())
	b.heard(o.ended, domain.Playback{Text: "heard " + o.canary})
	b.exec(`INSERT INTO past_usage VALUES ($1, date_trunc('hour', now(), 'UTC'), $2, 1, 1, 0, 0, 0, 0, 0, 0, '{}')`, b.org, o.past())
	b.exec(`INSERT INTO past_automations VALUES ($1, $2, 'ag', 'api', 'run', 'failed', now(), NULL)`, b.org, o.past())
	key, _ := newKey(t, s, domain.KeyScopeOrganization, b.org, "")
	o.key = key.ID
	o.receive()
	return o
}

// receive creates a hook, a delivery without a run, and a run that is coalescing the deliveries
// with a coalescing key.
func (o *organization) receive() {
	o.Helper()
	m := &hookEnv{testEnv: o.testEnv, key: o.key}
	h := m.newHook()
	h.Name, h.MessageTemplate, h.SealedSecret = o.canary, o.canary, o.canary
	hook, err := o.s.Hooks.CreateHook(o.Context(), h)
	if err != nil {
		o.Fatalf("creating hook: %v", err)
	}
	m.hook, o.hook = hook, hook.ID
	d := m.delivery("d")
	d.Run, d.Event, d.Body, d.Status = nil, o.canary, []byte(o.canary), domain.DeliveryFiltered
	m.deliver(d)
	o.exec(`INSERT INTO collecting (hook_id, key_hash, org_id, run_id, deliveries, input, last_at, closes_at)
		VALUES ($1, 'k', $2, $3, 1, to_json($4::text), now(), now() + interval '1 hour')`, o.hook, o.org, o.waiting, o.canary)
}

// deliveryAs returns a delivery to o's hook. The delivery claims to belong to the organization org.
func (o *organization) deliveryAs(org, name string) queuedb.NewDelivery {
	d := (&hookEnv{testEnv: o.testEnv, key: o.key, hook: domain.Hook{ID: o.hook}}).delivery(name)
	d.OrganizationID, d.Run.OrganizationID = org, org
	return d
}

// past returns the name that the agent of o's removed runs and the automation of these runs share.
func (o *organization) past() string { return "past-" + o.canary }

// callTools creates a tool set, two effects and a source. One effect is ready, and the other waits
// for a decision.
func (o *organization) callTools(waits queuedb.NewRun) {
	o.Helper()
	if ok, err := o.s.Executions.KeepToolSet(o.Context(), o.held, []byte(`["`+o.canary+`"]`)); err != nil || !ok {
		o.Fatalf("tool set: %v, %v", ok, err)
	}
	o.source = o.keep(o.held, domain.Source{Text: o.canary})
	o.file = o.make(o.held, "c", made(o.canary, o.canary))[0].ID
	content := o.upload([]byte("document of " + o.canary))
	o.doc = o.add(knowledgedb.NewDocument{Name: o.canary, Content: &content})[0].Document.ID
	o.process(o.doc)
	o.give(o.held, o.doc)
	o.prepare(o.held, effect("c", domain.SideEffectUnsafe), false)
	o.parked = o.accept(wideWindow, waits)[0].Run.Run.ID
	held := o.mustClaim(o.parked).Held()
	o.prepare(held, effect("c", domain.SideEffectUnsafe), true)
	o.park(held, domain.ActionApproval, executiondb.Chunk{})
}

// digest returns a hash of all rows of an organization, as a superuser reads them.
func (o *organization) digest() string {
	o.Helper()
	sum := sha256.New()
	for _, table := range texts(o.T, o.raw, `SELECT p.polrelid::regclass::text FROM pg_policy p WHERE p.polname = 'tenant' ORDER BY 1`) {
		column := "org_id"
		if table == "organizations" {
			column = "id"
		}
		for _, row := range texts(o.T, o.raw, `SELECT t::text FROM `+table+` t WHERE `+column+` = $1 ORDER BY 1`, o.org) {
			fmt.Fprintln(sum, table, row)
		}
	}
	return fmt.Sprintf("%x", sum.Sum(nil))
}

// traces returns texts that occur only in data of the organization. A result that contains such a
// text contains data of the organization.
func (o *organization) traces() []string {
	return []string{o.canary, o.org, o.agent, o.ended, o.held.RunID, o.waiting, o.key, o.parked, o.source, o.file, o.doc, o.hook, o.endpoint, o.notification}
}

// probe requests data of one organization on behalf of another.
type probe struct {
	name string
	ask  func(ctx context.Context, s *store.Store, org string, of *organization) (any, error)
}

// all dereferences the pointers in a result, because a printed pointer does not show the value that
// it points to.
func all[T any](list []*T, err error) (any, error) {
	var out []T
	for _, p := range list {
		if p != nil {
			out = append(out, *p)
		}
	}
	return out, err
}

var probes = []probe{
	{"Agent", func(ctx context.Context, s *store.Store, org string, of *organization) (any, error) {
		return s.Agents.Agent(ctx, org, of.agent)
	}},
	{"Agents", func(ctx context.Context, s *store.Store, org string, _ *organization) (any, error) {
		return s.Agents.Agents(ctx, org, "", "", 100)
	}},
	{"CallableAgents", func(ctx context.Context, s *store.Store, org string, _ *organization) (any, error) {
		return s.Agents.CallableAgents(ctx, org, domain.CallerSystem, 100)
	}},
	{"UpdateAgent", func(ctx context.Context, s *store.Store, org string, of *organization) (any, error) {
		return s.Agents.UpdateAgent(ctx, org, of.agent, 0, func(a *domain.Agent) error { a.Description = "theirs"; return nil })
	}},
	{"DeleteAgent", func(ctx context.Context, s *store.Store, org string, of *organization) (any, error) {
		return nil, s.Agents.DeleteAgent(ctx, org, of.agent)
	}},
	{"Config", func(ctx context.Context, s *store.Store, org string, of *organization) (any, error) {
		return s.Executions.Config(ctx, org, of.agent, 2)
	}},
	{"RunByID", func(ctx context.Context, s *store.Store, org string, of *organization) (any, error) {
		return s.Runs.RunByID(ctx, org, "", of.ended)
	}},
	{"ListRuns", func(ctx context.Context, s *store.Store, org string, _ *organization) (any, error) {
		return s.Runs.ListRuns(ctx, org, rundb.RunFilter{}, 100)
	}},
	{"AwaitedRuns", func(ctx context.Context, s *store.Store, org string, of *organization) (any, error) {
		return s.Runs.AwaitedRuns(ctx, []rundb.RunRef{{OrganizationID: org, RunID: of.ended}, {OrganizationID: org, RunID: of.parked}})
	}},
	{"RunsByKey", func(ctx context.Context, s *store.Store, org string, of *organization) (any, error) {
		return all(s.Runs.RunsByKey(ctx, []rundb.KeyRef{{OrganizationID: org, Hash: contract.Hash(of.org, "k")}}))
	}},
	{"History", func(ctx context.Context, s *store.Store, org string, of *organization) (any, error) {
		return s.Sessions.History(ctx, org, of.ref, 100, 100)
	}},
	{"Steps", func(ctx context.Context, s *store.Store, org string, of *organization) (any, error) {
		return s.Executions.Steps(ctx, org, of.held.RunID)
	}},
	{"EventLogs", func(ctx context.Context, s *store.Store, org string, of *organization) (any, error) {
		return all(s.Executions.EventLogs(ctx, []executiondb.EventLogRequest{{RunID: of.held.RunID, OrganizationID: org}, {RunID: of.ended, OrganizationID: org}}))
	}},
	{"ToolSet", func(ctx context.Context, s *store.Store, org string, of *organization) (any, error) {
		return s.Executions.ToolSet(ctx, org, of.held.RunID)
	}},
	{"SourceByID", func(ctx context.Context, s *store.Store, org string, of *organization) (any, error) {
		return s.Blobs.SourceByID(ctx, org, of.source)
	}},
	{"OpenFile", func(ctx context.Context, s *store.Store, org string, of *organization) (any, error) {
		_, r, err := s.Blobs.OpenFile(ctx, org, of.file)
		if err != nil {
			return nil, err
		}
		return io.ReadAll(r)
	}},
	{"FileContents", func(ctx context.Context, s *store.Store, org string, of *organization) (any, error) {
		return s.Blobs.FileContents(ctx, org, []string{of.file})
	}},
	{"SessionFiles", func(ctx context.Context, s *store.Store, org string, of *organization) (any, error) {
		files, _, err := s.Blobs.SessionFiles(ctx, of.heldBy(org), "d")
		return files, err
	}},
	{"DocumentByID", func(ctx context.Context, s *store.Store, org string, of *organization) (any, error) {
		return s.Knowledge.DocumentByID(ctx, org, of.doc)
	}},
	{"Documents", func(ctx context.Context, s *store.Store, org string, _ *organization) (any, error) {
		return s.Knowledge.Documents(ctx, org, knowledgedb.DocumentFilter{}, "", 100)
	}},
	{"OpenDocument", func(ctx context.Context, s *store.Store, org string, of *organization) (any, error) {
		return original(ctx, s, org, of.doc)
	}},
	{"Sessions", func(ctx context.Context, s *store.Store, org string, _ *organization) (any, error) {
		return s.Sessions.Sessions(ctx, org, sessiondb.SessionFilter{}, 100)
	}},
	{"ReadSession", func(ctx context.Context, s *store.Store, org string, of *organization) (any, error) {
		name := of.sessionName(org)
		found, turns, err := readSession(ctx, s, name, 0, 100)
		return []any{found, turns}, err
	}},
	{"EraseSession", func(ctx context.Context, s *store.Store, org string, of *organization) (any, error) {
		return s.Sessions.EraseSession(ctx, of.sessionName(org))
	}},
	{"AddDocuments", func(ctx context.Context, s *store.Store, org string, of *organization) (any, error) {
		up, err := s.Blobs.Upload(ctx, org, strings.NewReader("document of "+of.canary), 1<<20)
		if err != nil {
			return nil, err
		}
		added, err := s.Knowledge.AddDocuments(ctx, org, []knowledgedb.NewDocument{{ID: id.New(id.Document), Name: "mine", Content: &up}}, knowledgedb.DocumentLimits{})
		var got []string
		for _, q := range added {
			got = append(got, q.Document.ID, q.Document.Name)
		}
		return got, err
	}},
	{"ReplaceDocument", func(ctx context.Context, s *store.Store, org string, of *organization) (any, error) {
		return s.Knowledge.ReplaceDocument(ctx, org, of.doc, knowledgedb.NewDocument{Name: "theirs", URL: "https://example.com/"}, knowledgedb.DocumentLimits{})
	}},
	{"EditDocument", func(ctx context.Context, s *store.Store, org string, of *organization) (any, error) {
		name := "theirs"
		return s.Knowledge.EditDocument(ctx, org, of.doc, &name, nil)
	}},
	{"RetryDocument", func(ctx context.Context, s *store.Store, org string, of *organization) (any, error) {
		return s.Knowledge.RetryDocument(ctx, org, of.doc)
	}},
	{"GiveDocuments", func(ctx context.Context, s *store.Store, org string, of *organization) (any, error) {
		given, _, err := s.Knowledge.GiveDocuments(ctx, of.heldBy(org), []string{of.doc})
		return given, err
	}},
	{"DeleteDocument", func(ctx context.Context, s *store.Store, org string, of *organization) (any, error) {
		return s.Knowledge.DeleteDocument(ctx, org, of.doc)
	}},
	{"Keys", func(ctx context.Context, s *store.Store, org string, _ *organization) (any, error) {
		return s.Organizations.Keys(ctx, accountdb.KeyFilter{OrganizationID: org}, 100)
	}},
	{"RevokeKey", func(ctx context.Context, s *store.Store, org string, of *organization) (any, error) {
		return nil, s.Organizations.RevokeKey(ctx, accountdb.Actor{OrganizationID: org, Role: domain.RoleOwner}, of.key)
	}},
	{"Members", func(ctx context.Context, s *store.Store, org string, _ *organization) (any, error) {
		return s.Organizations.Members(ctx, org, accountdb.After{}, 100)
	}},
	{"Accept", func(ctx context.Context, s *store.Store, org string, of *organization) (any, error) {
		r := of.run("", "s") // a run with the other organization's agent in its session
		r.OrganizationID = org
		out, err := s.Queue.Accept(ctx, []queuedb.NewRun{r})
		if err == nil && out[0].Err == nil {
			return "accepted for " + of.agent, nil
		}
		return nil, err
	}},
	{"Extend", func(ctx context.Context, s *store.Store, org string, of *organization) (any, error) {
		return s.Executions.Extend(ctx, []lease.Held{of.heldBy(org)})
	}},
	{"Journal", func(ctx context.Context, s *store.Store, org string, of *organization) (any, error) {
		ok, err := s.Executions.Journal(ctx, of.heldBy(org), 2, []byte(`{}`))
		return fmt.Sprint(map[bool]string{true: of.held.RunID}[ok]), err
	}},
	{"SaveEvents", func(ctx context.Context, s *store.Store, org string, of *organization) (any, error) {
		return s.Executions.SaveEvents(ctx, []executiondb.Checkpoint{{Held: of.heldBy(org), Chunk: executiondb.Chunk{FirstN: 3, LastN: 3, Events: "x {}"}}})
	}},
	{"Requeue", func(ctx context.Context, s *store.Store, org string, of *organization) (any, error) {
		return s.Executions.Requeue(ctx, []executiondb.Requeue{{Held: of.heldBy(org)}})
	}},
	{"Finish", func(ctx context.Context, s *store.Store, org string, of *organization) (any, error) {
		run := domain.Run{ID: of.held.RunID}
		run.End(domain.RunFailed, executiondb.WorkerLost, domain.At(time.Now()), 1)
		outcome, err := executiondb.NewOutcome(of.heldBy(org), run)
		if err != nil {
			return nil, err
		}
		outcome.Events = executiondb.Chunk{FirstN: 3, LastN: 3, Events: "x {}"}
		return s.Executions.Finish(ctx, []executiondb.Outcome{outcome})
	}},
	{"PrepareEffect", func(ctx context.Context, s *store.Store, org string, of *organization) (any, error) {
		e, _, err := s.Executions.PrepareEffect(ctx, of.heldBy(org), effect("c", domain.SideEffectUnsafe), false)
		return []any{e.Name, string(e.Input)}, err
	}},
	{"PrepareEffect of a new call", func(ctx context.Context, s *store.Store, org string, of *organization) (any, error) {
		_, kept, err := s.Executions.PrepareEffect(ctx, of.heldBy(org), effect("d", domain.SideEffectUnsafe), false)
		return of.ifDone(kept), err
	}},
	{"BeginSend", func(ctx context.Context, s *store.Store, org string, of *organization) (any, error) {
		done, err := s.Executions.BeginSend(ctx, of.heldBy(org), "c", "sender")
		return of.ifDone(done), err
	}},
	{"EndSend", func(ctx context.Context, s *store.Store, org string, of *organization) (any, error) {
		done, err := s.Executions.EndSend(ctx, of.heldBy(org), "c", []byte(`{}`))
		return of.ifDone(done), err
	}},
	{"CancelSend", func(ctx context.Context, s *store.Store, org string, of *organization) (any, error) {
		done, err := s.Executions.CancelSend(ctx, of.heldBy(org), "c", "sender")
		return of.ifDone(done), err
	}},
	{"VoidEffect", func(ctx context.Context, s *store.Store, org string, of *organization) (any, error) {
		done, err := s.Executions.VoidEffect(ctx, of.heldBy(org), "c")
		return of.ifDone(done), err
	}},
	{"Park", func(ctx context.Context, s *store.Store, org string, of *organization) (any, error) {
		return s.Executions.Park(ctx, of.heldBy(org), domain.RequiredAction{Kind: domain.ActionApproval, ToolCallID: "c"}, executiondb.Chunk{})
	}},
	{"Decide", func(ctx context.Context, s *store.Store, org string, of *organization) (any, error) {
		return s.Executions.Decide(ctx, org, "", of.parked, "c", domain.DecisionApprove, "theirs")
	}},
	{"KeepSource", func(ctx context.Context, s *store.Store, org string, of *organization) (any, error) {
		id, _, err := s.Blobs.KeepSource(ctx, of.heldBy(org), domain.Source{Text: of.canary})
		return id, err
	}},
	{"KeepFiles", func(ctx context.Context, s *store.Store, org string, of *organization) (any, error) {
		files, kept, err := s.Blobs.KeepFiles(ctx, of.heldBy(org), "c", []blobdb.NewFile{made("theirs", of.canary)}, []string{of.canary}, 0)
		return []any{files, of.ifDone(kept)}, err
	}},
	{"AttachableFile", func(ctx context.Context, s *store.Store, org string, of *organization) (any, error) {
		return s.Blobs.AttachableFile(ctx, org, of.file)
	}},
	{"HoldAttachments", func(ctx context.Context, s *store.Store, org string, of *organization) (any, error) {
		files, kept, err := s.Blobs.HoldAttachments(ctx, of.heldBy(org), []string{of.file})
		return []any{files, of.ifDone(kept)}, err
	}},
	{"SetPrepared", func(ctx context.Context, s *store.Store, org string, of *organization) (any, error) {
		kept, err := s.Blobs.SetPrepared(ctx, of.heldBy(org), of.file, blobdb.Prepared{Kind: "text", TextID: "theirs"})
		return of.ifDone(kept), err
	}},
	{"Journal of a tool set", func(ctx context.Context, s *store.Store, org string, of *organization) (any, error) {
		done, err := s.Executions.KeepToolSet(ctx, of.heldBy(org), []byte(`["theirs"]`))
		return of.ifDone(done), err
	}},
	{"Redispatch", func(ctx context.Context, s *store.Store, org string, of *organization) (any, error) {
		overdue := []queuedb.Overdue{{Job: domain.Job{RunID: of.waiting, OrganizationID: org}}}
		return s.Queue.Redispatch(ctx, overdue, overdue)
	}},
	{"Endpoint", func(ctx context.Context, s *store.Store, org string, of *organization) (any, error) {
		return s.Notifications.Endpoint(ctx, org, of.endpoint)
	}},
	{"Endpoints", func(ctx context.Context, s *store.Store, org string, _ *organization) (any, error) {
		return s.Notifications.Endpoints(ctx, org, "", 100)
	}},
	{"UpdateEndpoint", func(ctx context.Context, s *store.Store, org string, of *organization) (any, error) {
		theirs := "theirs"
		return s.Notifications.UpdateEndpoint(ctx, org, of.endpoint, notificationdb.EndpointChange{URL: &theirs})
	}},
	{"TestEndpoint", func(ctx context.Context, s *store.Store, org string, of *organization) (any, error) {
		return s.Notifications.TestEndpoint(ctx, org, of.endpoint)
	}},
	{"Notification", func(ctx context.Context, s *store.Store, org string, of *organization) (any, error) {
		return s.Notifications.Notification(ctx, org, of.notification)
	}},
	{"Notifications", func(ctx context.Context, s *store.Store, org string, _ *organization) (any, error) {
		return s.Notifications.Notifications(ctx, org, notificationdb.NotificationFilter{}, "", 100)
	}},
	{"ResendNotification", func(ctx context.Context, s *store.Store, org string, of *organization) (any, error) {
		return s.Notifications.ResendNotification(ctx, org, of.notification)
	}},
	{"RecordAttempt", func(ctx context.Context, s *store.Store, org string, of *organization) (any, error) {
		held := notificationdb.LeasedNotification{OrganizationID: org, EndpointID: of.endpoint, ID: of.notification}
		disabled, err := s.Notifications.RecordAttempt(ctx, held, notificationdb.Attempt{Status: domain.NotificationFailed, Gone: true})
		return of.ifDone(disabled), err
	}},
	{"DropNotification", func(ctx context.Context, s *store.Store, org string, of *organization) (any, error) {
		return nil, s.Notifications.DropNotification(ctx, notificationdb.LeasedNotification{OrganizationID: org, EndpointID: of.endpoint, ID: of.notification})
	}},
	{"DeleteEndpoint", func(ctx context.Context, s *store.Store, org string, of *organization) (any, error) {
		return nil, s.Notifications.DeleteEndpoint(ctx, org, of.endpoint)
	}},
	{"Cancel", func(ctx context.Context, s *store.Store, org string, of *organization) (any, error) {
		_, ended, err := s.Executions.Cancel(ctx, org, "", of.held.RunID)
		return ended, err
	}},
	{"Timeline", func(ctx context.Context, s *store.Store, org string, of *organization) (any, error) {
		timeline, _, err := s.Runs.Timeline(ctx, org, "", of.held.RunID)
		return timeline.Spans, err
	}},
	{"Usage", func(ctx context.Context, s *store.Store, org string, of *organization) (any, error) {
		usage, err := s.Usage.Usage(ctx, org, usagedb.UsageFilter{Days: 1, AgentID: of.agent}, time.Now().Add(time.Minute))
		return map[bool]string{true: "runs of " + of.agent}[usage.Totals.Runs > 0], err
	}},
	{"Automations", func(ctx context.Context, s *store.Store, org string, _ *organization) (any, error) {
		return s.Runs.Automations(ctx, org, "", 100)
	}},
	{"Usage of removed runs", func(ctx context.Context, s *store.Store, org string, of *organization) (any, error) {
		usage, err := s.Usage.Usage(ctx, org, usagedb.UsageFilter{Days: 1, AgentID: of.past()}, time.Now().Add(time.Minute))
		return map[bool]string{true: "runs of " + of.past()}[usage.Totals.Runs > 0], err
	}},
	{"Automations of removed runs", func(ctx context.Context, s *store.Store, org string, _ *organization) (any, error) {
		return s.Runs.Automations(ctx, org, "past", 100)
	}},
	{"NoteAttempts", func(ctx context.Context, s *store.Store, org string, of *organization) (any, error) {
		claim := executiondb.Claimed{RunID: of.held.RunID, OrganizationID: org, Fence: of.held.Fence, Attempts: 2}
		_, err := s.Executions.NoteAttempts(ctx, []executiondb.Claimed{claim})
		return nil, err
	}},
	{"NoteRefusal", func(ctx context.Context, s *store.Store, org string, of *organization) (any, error) {
		return nil, s.Executions.NoteRefusal(ctx, of.heldBy(org), domain.ProviderError{Status: 401, Message: "noted by " + org})
	}},
	{"FailedSinceStep", func(ctx context.Context, s *store.Store, org string, of *organization) (any, error) {
		return s.Executions.FailedSinceStep(ctx, of.heldBy(org), "model_truncated")
	}},
	{"Refusal", func(ctx context.Context, s *store.Store, org string, of *organization) (any, error) {
		return s.Runs.Refusal(ctx, org, of.held.RunID, "model_truncated")
	}},
	{"SaveHeard", func(ctx context.Context, s *store.Store, org string, of *organization) (any, error) {
		return nil, s.Sessions.SavePlayback(ctx, org, of.ended, domain.Playback{Text: "theirs"})
	}},
	{"CancelQueued", func(ctx context.Context, s *store.Store, org string, of *organization) (any, error) {
		return s.Executions.CancelQueued(ctx, org, of.agent, 100)
	}},
	{"Hooks", func(ctx context.Context, s *store.Store, org string, _ *organization) (any, error) {
		return s.Hooks.Hooks(ctx, org, "", 100)
	}},
	{"Hook", func(ctx context.Context, s *store.Store, org string, of *organization) (any, error) {
		return s.Hooks.Hook(ctx, org, of.hook)
	}},
	{"Deliveries", func(ctx context.Context, s *store.Store, org string, of *organization) (any, error) {
		return s.Hooks.Deliveries(ctx, org, hookdb.DeliveryFilter{HookID: of.hook}, 100)
	}},
	{"Delivery", func(ctx context.Context, s *store.Store, org string, of *organization) (any, error) {
		return s.Hooks.Delivery(ctx, org, of.hook, "d")
	}},
	{"DeliveryBody", func(ctx context.Context, s *store.Store, org string, of *organization) (any, error) {
		body, _, err := s.Hooks.DeliveryBody(ctx, org, of.hook, "d")
		return body, err
	}},
	{"Reseal", func(ctx context.Context, s *store.Store, org string, of *organization) (any, error) {
		values := []sealdb.Value{{Kind: sealdb.KindHook, ID: of.hook}, {Kind: sealdb.KindNotification, ID: of.endpoint}, {Kind: sealdb.KindDelivery, ID: of.hook, Part: "d"}}
		for i := range values {
			values[i].OrganizationID = org
		}
		_, err := s.Seals.Reseal(ctx, org, values, overwritingResealer{}) // the result only repeats the given values
		return nil, err
	}},
	{"CreateHook", func(ctx context.Context, s *store.Store, org string, of *organization) (any, error) {
		h := (&hookEnv{testEnv: of.testEnv, key: of.key}).newHook() // a hook with the other organization's agent and key
		h.OrganizationID = org
		return s.Hooks.CreateHook(ctx, h)
	}},
	{"UpdateHook", func(ctx context.Context, s *store.Store, org string, of *organization) (any, error) {
		theirs := "theirs"
		return s.Hooks.UpdateHook(ctx, org, of.hook, hookdb.HookChange{Name: &theirs})
	}},
	{"AcceptDeliveries", func(ctx context.Context, s *store.Store, org string, of *organization) (any, error) {
		fresh, seen, collected := of.deliveryAs(org, "e"), of.deliveryAs(org, "d"), of.deliveryAs(org, "f")
		collected.Collect = &queuedb.Collect{KeyHash: []byte("k"), Window: time.Hour, MaxWait: time.Hour}
		out, err := s.Queue.AcceptDeliveries(ctx, []queuedb.NewDelivery{fresh, seen, collected})
		var got []string
		for _, a := range out {
			got = append(got, a.Delivery.HookID, a.Delivery.Event, runOf(a))
		}
		return got, err
	}},
	{"DeleteHook", func(ctx context.Context, s *store.Store, org string, of *organization) (any, error) {
		return nil, s.Hooks.DeleteHook(ctx, org, of.hook)
	}},
	{"HookSizes", func(ctx context.Context, s *store.Store, org string, _ *organization) (any, error) {
		return s.Hooks.HookSizes(ctx, org, "", 100)
	}},
	{"AgentSizes", func(ctx context.Context, s *store.Store, org string, _ *organization) (any, error) {
		return s.Agents.AgentSizes(ctx, org, "", "", 100)
	}},
	{"ShortHistory", func(ctx context.Context, s *store.Store, org string, of *organization) (any, error) {
		turns, large, err := s.Sessions.ShortHistory(ctx, org, of.ref, 100, 100)
		if large > 0 {
			return large, err
		}
		return turns, err
	}},
	{"DocumentSizes", func(ctx context.Context, s *store.Store, org string, _ *organization) (any, error) {
		return s.Knowledge.DocumentSizes(ctx, org, knowledgedb.DocumentFilter{}, "", 100)
	}},
	{"TimelineBytes", func(ctx context.Context, s *store.Store, org string, of *organization) (any, error) {
		return s.Runs.TimelineBytes(ctx, org, "", of.ended)
	}},
	{"EventLogBytes", func(ctx context.Context, s *store.Store, org string, of *organization) (any, error) {
		return s.Executions.EventLogBytes(ctx, executiondb.EventLogRequest{RunID: of.ended, OrganizationID: org})
	}},
	{"SourceBytes", func(ctx context.Context, s *store.Store, org string, of *organization) (any, error) {
		return s.Blobs.SourceBytes(ctx, org, of.source)
	}},
}

func (o *organization) heldBy(org string) lease.Held {
	return lease.Held{RunID: o.held.RunID, OrganizationID: org, Fence: o.held.Fence}
}

// ifDone converts the result of a write to text, so that a successful write is visible.
func (o *organization) ifDone(done bool) string {
	if done {
		return "done to " + o.held.RunID
	}
	return ""
}

// sessionName returns the name of the session "s" with its key. A caller of another organization
// cannot compute this key.
func (o *organization) sessionName(org string) sessiondb.SessionName {
	return sessiondb.SessionName{OrganizationID: org, TargetID: o.agent, SessionID: "s", Key: contract.Hash(o.org, o.agent, "s")}
}

// wantApart lets one organization (asks) request all data of another organization (of). It fails
// the test if data is returned or changed.
func wantApart(t *testing.T, s *store.Store, asks, of *organization) {
	t.Helper()
	before := of.digest()
	for _, p := range probes {
		err := wantNoTrace(t, s, p, asks.org, of)
		if after := of.digest(); after != before {
			t.Errorf("%s changed another organization's rows (%v)", p.name, err)
			before = after
		}
	}
}

// wantNoTrace sends one probe in the name of the organization asks. It fails the test if the answer
// contains data of the organization of. It returns the error of the probe.
func wantNoTrace(t *testing.T, s *store.Store, p probe, asks string, of *organization) error {
	t.Helper()
	got, err := p.ask(t.Context(), s, asks, of)
	for _, trace := range of.traces() {
		if strings.Contains(fmt.Sprintf("%s", got), trace) {
			t.Errorf("%s gave %s of another organization: %s (%v)", p.name, trace, got, err)
			break
		}
	}
	return err
}

func TestOrganizationsAreKeptApart(t *testing.T) {
	t.Parallel()
	s, raw := openRaw(t)
	a, b := newOrganization(t, s, raw, "ada"), newOrganization(t, s, raw, "bob")
	wantApart(t, s, a, b)
	wantApart(t, s, b, a)
}

// TestForgottenConditionsLeakNothing runs the probes with statements whose condition on the
// organization is removed. If the policies do not apply to the connection, nearly every probe then
// succeeds, which shows that the test would detect a leak.
func TestForgottenConditionsLeakNothing(t *testing.T) {
	t.Parallel()
	dsn := testkit.Postgres(t)
	raw := testkit.SQL(t, dsn)
	s, err := store.Open(dsn, 8)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	a, b := newOrganization(t, s, raw, "ada"), newOrganization(t, s, raw, "bob")
	if n := testkit.SabotageFunctions(t, raw); n < 5 {
		t.Fatalf("%d conditions were taken out of functions", n)
	}
	broken, by := sabotaged(t, dsn)
	wantApart(t, broken, a, b)
	if by.Conditions() < 15 {
		t.Errorf("%d conditions were taken out of statements", by.Conditions())
	}
	if agent, err := broken.Agents.Agent(t.Context(), a.org, a.agent); err != nil || agent.Name != a.canary {
		t.Errorf("one's own agent: %+v, %v", agent, err)
	}
	if runs, err := broken.Runs.ListRuns(t.Context(), a.org, rundb.RunFilter{}, 10); err != nil || len(runs) != 4 {
		t.Errorf("one's own runs: %+v, %v", runs, err)
	}

	unbound, _ := sabotaged(t, dsn+"&role=none")
	through := map[string]bool{}
	reading := slices.DeleteFunc(slices.Clone(probes[24:]), func(p probe) bool { return !slices.Contains(readLater, p.name) })
	for _, p := range append(reading, probes[:24]...) { // the probes that read, and the probes whose writes are visible immediately
		got, _ := p.ask(t.Context(), unbound, a.org, b)
		for _, trace := range b.traces() {
			through[p.name] = through[p.name] || strings.Contains(fmt.Sprintf("%s", got), trace)
		}
	}
	for _, name := range []string{"Agent", "Agents", "Config", "RunByID", "ListRuns", "History", "Steps", "EventLogs", "ToolSet", "SourceByID", "OpenFile", "FileContents", "SessionFiles", "ReadSession", "DocumentByID", "Documents", "OpenDocument", "Timeline", "Usage", "Automations", "Usage of removed runs", "Automations of removed runs", "Hooks", "Hook", "Deliveries", "Delivery", "DeliveryBody", "Endpoint", "Endpoints", "Notification", "Notifications"} {
		if !through[name] {
			t.Errorf("%s would not have noticed a missing policy", name)
		}
	}
}

// overwritingResealer is a resealer that replaces sealed values with texts of its own.
type overwritingResealer struct{}

func (overwritingResealer) ResealText(sealdb.Kind, string, string, string) (string, error) {
	return "theirs", nil
}

func (overwritingResealer) ResealBytes([]byte, []byte) ([]byte, error) { return []byte("theirs"), nil }

// readLater lists the reading probes that follow the erasing probes in the list of all probes.
// These probes also read records that remain after an erasure.
var readLater = []string{"Timeline", "Usage", "Automations", "Usage of removed runs", "Automations of removed runs", "Hooks", "Hook", "Deliveries", "Delivery", "DeliveryBody", "Endpoint", "Endpoints", "Notification", "Notifications"}

func sabotaged(t *testing.T, dsn string) (*store.Store, *testkit.Sabotage) {
	t.Helper()
	connector, err := pg.Connector(dsn)
	if err != nil {
		t.Fatal(err)
	}
	by := testkit.Sabotaged(connector)
	s := store.On(by, 8)
	t.Cleanup(func() { _ = s.Close() })
	return s, by
}

// The name of an organization is never parsed as a list of organizations, even if it looks like
// one. The rows of the other organization are compared once for each name.
func TestAnOrganizationIsNotParsedAsAList(t *testing.T) {
	t.Parallel()
	s, raw := openRaw(t)
	a, b := newOrganization(t, s, raw, "ada"), newOrganization(t, s, raw, "bob")
	before := b.digest()
	for _, org := range []string{a.org + "," + b.org, "," + b.org, b.org + ",", "'" + b.org, id.New(id.Organization)} {
		for _, p := range probes {
			_ = wantNoTrace(t, s, p, org, b) // most probes fail for such a name
		}
		if after := b.digest(); after != before {
			t.Errorf("one of the probes with the name %q changed another organization's rows", org)
			before = after
		}
	}
}

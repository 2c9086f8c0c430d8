package growth

import (
	"bytes"
	"database/sql"
	"encoding/json"
	"testing"
	"time"

	"parley/scripts/bench/internal/load"
	"parley/shared/contract"
	"parley/shared/domain"
	"parley/shared/id"
	"parley/shared/store"
	"parley/shared/store/accountdb"
	"parley/shared/store/executiondb"
	"parley/shared/store/queuedb"
	"parley/shared/store/rundb"
	"parley/shared/testkit"
)

// ready is a database with an organization, its key and its agent, as the API makes them.
func ready(t *testing.T) (*store.Store, *Database, *sql.DB, Owner) {
	t.Helper()
	dsn := testkit.Postgres(t)
	st, err := store.Open(dsn, 4)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = st.Close() })
	account, err := st.Accounts.SignUp(t.Context(), accountdb.NewUser{Email: "a@example.com"}, accountdb.NewLogin{TokenHash: []byte("x"), ExpiresAt: time.Now().Add(time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	org := account.Organization.ID
	agent, err := st.Agents.CreateAgent(t.Context(), org, domain.Agent{
		ID: id.New(id.Agent), Name: "Echo", Model: "offline/echo", AllowedCallers: []domain.CallerKind{domain.CallerUser, domain.CallerSystem},
	})
	if err != nil {
		t.Fatal(err)
	}
	db, key := testkit.SQL(t, dsn), id.New(id.Key)
	_, err = db.ExecContext(t.Context(), `INSERT INTO api_keys (id, scope, org_id, user_id, name, secret_hash, last_four)
		SELECT $1, 'organization', $2, id, 'bench', '\x00', 'abcd' FROM users`, key, org)
	if err != nil {
		t.Fatal(err)
	}
	d, err := Open(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	return st, d, db, Owner{Organization: org, Agent: agent.ID, Key: key}
}

// carriedOut accepts, claims and finishes a run, as ingress and worker do.
func carriedOut(t *testing.T, st *store.Store, o Owner) string {
	t.Helper()
	const key = "carried-out"
	run := queuedb.NewRun{
		ID: id.New(id.Run), OrganizationID: o.Organization, AgentID: o.Agent, CallerKind: domain.CallerSystem, Principal: "system",
		TriggerType: "schedule", AutomationID: "bench", IdempotencyKey: key, KeyHash: contract.Hash(o.Organization, string(contract.EndpointAutomation), "", key),
		Fingerprint: contract.Hash(o.Agent, "", load.Message, ""), Input: []byte(`{"message":"` + load.Message + `"}`),
		Lane: domain.LaneAutomation, Retention: 24 * time.Hour, Deadline: time.Minute, KeyID: o.Key,
	}
	run.SessionID = "auto_" + id.Suffix(run.ID)
	run.SessionKey = contract.Hash(o.Organization, o.Agent, "system", run.SessionID)
	if out, err := st.Queue.Accept(t.Context(), []queuedb.NewRun{run}, 64); err != nil || out[0].Err != nil {
		t.Fatalf("accepting: %+v, %v", out, err)
	}
	claims, err := st.Executions.Claim(t.Context(), []string{run.ID})
	if err != nil || claims[0].Run == nil {
		t.Fatalf("claiming: %+v, %v", claims, err)
	}
	held := claims[0].Run
	answer := "echo: " + load.Message
	ended := held.Run()
	ended.Message, ended.Output = &answer, &domain.Output{Message: answer}
	ended.Usage = domain.Usage{InputTokens: 10, OutputTokens: 11, Model: "offline/echo"}
	ended.End(domain.RunCompleted, nil, domain.At(held.Now), held.RetentionSecs)
	ending, err := executiondb.NewEnding(held.Held(), ended)
	if err != nil {
		t.Fatal(err)
	}
	ending.EndN = 3
	if _, err := st.Executions.Finish(t.Context(), []executiondb.Ending{ending}); err != nil {
		t.Fatal(err)
	}
	return run.ID
}

// What is filled in is what runs leave that were carried out, but for what is each one's own.
func TestFilledRunsAreLikeThoseThatWereCarriedOut(t *testing.T) {
	t.Parallel()
	st, d, db, owner := ready(t)
	carried := carriedOut(t, st, owner)
	if err := d.Fill(t.Context(), Batch{First: 1, Runs: 1, From: time.Hour, OwnEvery: 1}); err != nil {
		t.Fatal(err)
	}
	own := map[string]bool{
		"id": true, "session_ref": true, "session_id": true, "idempotency_key": true, "idempotency_hash": true, "sweep_after": true, "created_at": true,
		"result": true, "finished_at": true, "expires_at": true, "started_at": true, "ref": true, "key": true,
	}
	for _, query := range []string{
		`SELECT to_jsonb(r) FROM runs r ORDER BY id = $1`,
		`SELECT to_jsonb(s) FROM sessions s JOIN runs r ON r.session_ref = s.ref ORDER BY r.id = $1`,
	} {
		rows := objects(t, db, query, carried)
		if len(rows) != 2 {
			t.Fatalf("%d rows", len(rows))
		}
		filled, other := rows[0], rows[1]
		for name, want := range other {
			got := filled[name]
			if same := bytes.Equal(got, want); own[name] == same || own[name] && (string(got) == "null") != (string(want) == "null") {
				t.Errorf("%s is %s, of the one that was carried out %s", name, got, want)
			}
		}
	}
}

func objects(t *testing.T, db *sql.DB, query string, args ...any) (out []map[string]json.RawMessage) {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), query, args...)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var raw []byte
		if err := rows.Scan(&raw); err != nil {
			t.Fatal(err)
		}
		var row map[string]json.RawMessage
		if err := json.Unmarshal(raw, &row); err != nil {
			t.Fatal(err)
		}
		out = append(out, row)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return out
}

// The product lists them, finds them by their keys, knows their result by heart, and erases those that have expired.
func TestFilledRunsAreServed(t *testing.T) {
	t.Parallel()
	st, d, db, owner := ready(t)
	if err := d.AddOrganizations(t.Context(), 3); err != nil {
		t.Fatal(err)
	}
	for _, b := range []Batch{
		{First: 1, Runs: 40, From: 20 * time.Hour, To: time.Minute, OwnEvery: 2},
		{First: 41, Runs: 30, From: 26 * time.Hour, To: 25 * time.Hour, OwnEvery: 1},
	} {
		if err := d.Fill(t.Context(), b); err != nil {
			t.Fatal(err)
		}
	}
	listed, err := st.Runs.ListRuns(t.Context(), owner.Organization, rundb.RunFilter{AutomationID: "bench"}, 100)
	if err != nil || len(listed) < 20 || len(listed) == 40 {
		t.Fatalf("%d runs are listed: %v", len(listed), err)
	}
	for i, short := range listed {
		var shown domain.Run
		if !id.Valid(id.Run, short.ID) || i > 0 && short.ID > listed[i-1].ID {
			t.Errorf("the id %s", short.ID)
		}
		run, err := st.Runs.RunByID(t.Context(), owner.Organization, "", short.ID)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(run.Result, &shown); err != nil {
			t.Fatal(err)
		}
		if again, err := shown.Render(); err != nil || !bytes.Equal(again, run.Result) {
			t.Errorf("kept is %s, and rendered %s: %v", run.Result, again, err)
		}
	}
	hash := func(n int64) []byte {
		return contract.Hash(owner.Organization, string(contract.EndpointAutomation), "", load.Key(ownKeys, n))
	}
	kept, err := st.Runs.RunsByKey(t.Context(), []rundb.KeyRef{
		{OrganizationID: owner.Organization, Hash: hash(20)}, {OrganizationID: owner.Organization, Hash: hash(41)},
	})
	if err != nil || kept[0] == nil || kept[1] != nil {
		t.Errorf("by their keys: %+v, %v", kept, err)
	}
	for n := 0; n < 30; {
		looked, err := st.Sessions.DeleteExpired(t.Context(), 12)
		if err != nil || looked == 0 {
			t.Fatalf("%d runs erased, then %d: %v", n, looked, err)
		}
		n += looked
	}
	var runs, sessions, organizations int
	if err := db.QueryRowContext(t.Context(), `SELECT (SELECT count(*) FROM runs), (SELECT count(*) FROM sessions), count(DISTINCT org_id) FROM runs`).
		Scan(&runs, &sessions, &organizations); err != nil || runs != 40 || sessions != 40 || organizations != 4 {
		t.Errorf("left are %d runs in %d sessions of %d organizations: %v", runs, sessions, organizations, err)
	}
}

// What was measured is removed, and nothing else.
func TestForget(t *testing.T) {
	t.Parallel()
	st, d, db, owner := ready(t)
	if err := d.Fill(t.Context(), Batch{First: 1, Runs: 5, From: time.Hour, OwnEvery: 1}); err != nil {
		t.Fatal(err)
	}
	carriedOut(t, st, owner)
	if err := d.Forget(t.Context()); err != nil {
		t.Fatal(err)
	}
	var runs, sessions int
	if err := db.QueryRowContext(t.Context(), `SELECT (SELECT count(*) FROM runs), (SELECT count(*) FROM sessions)`).Scan(&runs, &sessions); err != nil ||
		runs != 5 || sessions != 5 {
		t.Errorf("left are %d runs in %d sessions: %v", runs, sessions, err)
	}
}

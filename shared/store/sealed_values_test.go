package store_test

import (
	"regexp"
	"strings"
	"testing"

	"parley/shared/store/sealdb"
	"parley/shared/testkit"
)

// Each process lists the sealed values when it starts. The listing must use an index, so that its
// duration does not depend on the number of values.
func TestSealedValuesAreFoundByTheirIndexes(t *testing.T) {
	t.Parallel()
	db := testkit.SQL(t, testkit.Postgres(t))
	source := strings.Join(texts(t, db, `SELECT prosrc FROM pg_proc WHERE proname = 'sealed_values'`), "")
	statements := regexp.MustCompile(`(?s)WHEN '(\w+)' THEN RETURN QUERY\s+(SELECT .*?LIMIT most);`).FindAllStringSubmatch(source, -1)
	if len(statements) != len(sealdb.Kinds) {
		t.Fatalf("%d statements were found for %d kinds", len(statements), len(sealdb.Kinds))
	}
	indexes := map[sealdb.Kind]string{
		sealdb.KindTool: "agents_sealed_tools", sealdb.KindToolVersion: "agent_configs_sealed", sealdb.KindWidget: "agents_sealed_widget",
		sealdb.KindHook: "hooks_sealed", sealdb.KindNotification: "notification_endpoints_sealed", sealdb.KindDelivery: "deliveries_sealed",
		sealdb.KindContent: "blob_chunks_sealed",
	}
	arguments := strings.NewReplacer("after_keys", "'0a'", "after_owner", "'org_x'", "after_id", "'00'", "after_part", "'1'", "LIMIT most", "LIMIT 1")
	for _, s := range statements {
		tx, err := db.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tx.ExecContext(t.Context(), `SET LOCAL ROLE parley_system; SET LOCAL enable_seqscan = off`); err != nil {
			t.Fatal(err)
		}
		var plan string
		if err := tx.QueryRowContext(t.Context(), `EXPLAIN (FORMAT json) `+arguments.Replace(s[2])).Scan(&plan); err != nil {
			t.Fatal(err)
		}
		_ = tx.Rollback() // the transaction only reads
		if index := indexes[sealdb.Kind(s[1])]; !strings.Contains(plan, `"Index Name": "`+index+`"`) || strings.Contains(plan, `"Sort"`) ||
			!strings.Contains(plan, `"Index Cond": "(ROW(`) {
			t.Errorf("values of %s are not found by %s: %s", s[1], index, plan)
		}
	}
}

// The service may change only the sealed texts in a stored version of an agent.
func TestAgentVersionsAreResealedAndNotChanged(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	const old, fresh = "v1.0a0a0a0a.abc", "v1.0b0b0b0b.def"
	b.exec(`UPDATE agent_configs SET config = $2 WHERE target_id = $1`, b.agent, `{"systemPrompt":"say \"`+old+`\"","x": "`+old+`"}`)
	for _, c := range []struct{ olds, news, want string }{
		{`{` + old + `}`, `{plain}`, "no sealed values"},
		{`{systemPrompt}`, `{` + fresh + `}`, "no sealed values"},
		{`{` + old + `}`, `{}`, "no sealed values"},
		{`{` + old + `}`, `{NULL}`, "no sealed values"},
		{`{v1.0a0a0a0a.other}`, `{` + fresh + `}`, "0"},
		{`{` + old + `}`, `{` + fresh + `}`, "1"},
	} {
		tx, err := b.s.SQL().BeginTx(b.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		var got string
		_, err = tx.ExecContext(b.Context(), `SELECT set_config('parley.organizations', $1, true)`, b.org)
		if err == nil {
			err = tx.QueryRowContext(b.Context(), `SELECT count(*) FROM reseal_config($1, $2, 1, $3, $4)`, b.org, b.agent, c.olds, c.news).Scan(&got)
		}
		if err != nil {
			got = err.Error()
		}
		if err := tx.Commit(); !strings.Contains(got, c.want) {
			t.Errorf("%s by %s: %s, %v; want %s", c.olds, c.news, got, err, c.want)
		}
	}
	if got, want := b.text(`SELECT config::text FROM agent_configs WHERE target_id = $1`, b.agent), `{"systemPrompt":"say \"`+old+`\"","x": "`+fresh+`"}`; got != want {
		t.Errorf("the version became %s, want %s", got, want)
	}
	if _, err := b.s.SQL().ExecContext(b.Context(), `UPDATE agent_configs SET config = '{}'`); err == nil {
		t.Error("the service changed versions by itself")
	}
}

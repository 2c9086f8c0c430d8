package store_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"parley/shared/domain"
	"parley/shared/id"
	"parley/shared/testkit"
)

// widgetAgent creates an agent with a widget that the given origins may embed.
func (b *testEnv) widgetAgent(enabled bool, origins ...string) domain.Agent {
	b.Helper()
	a, err := b.s.Agents.CreateAgent(b.Context(), b.org, domain.Agent{
		ID: id.New(id.Agent), Name: "n", SystemPrompt: "p", AllowedCallers: []domain.CallerKind{domain.CallerUser},
		Widget:      domain.Widget{Enabled: enabled, AllowedOrigins: origins, IdentitySecret: "sealed", Attachments: len(origins) > 1},
		Suggestions: origins,
	})
	if err != nil {
		b.Fatal(err)
	}
	return a
}

func (b *testEnv) wantListed(what, origin string, want bool) {
	b.Helper()
	got, err := b.s.Agents.WidgetOrigins(b.Context(), []string{"https://nobody.example.com", origin, "", "null"})
	if err != nil {
		b.Fatal(err)
	}
	if (got[origin] != nil) != want || len(got) > 1 || got["https://nobody.example.com"] != nil {
		b.Errorf("%s: %v are listed", what, got)
	}
}

func TestWidgetsAreFoundByAgentAndByOrigin(t *testing.T) {
	t.Parallel()
	dsn := testkit.Postgres(t)
	s, raw := openAt(t, dsn)
	b, other := newEnvOn(t, s, raw, "ada@example.com"), newEnvOn(t, s, raw, "bob@example.com")
	mine, theirs := b.widgetAgent(true, "https://a.example.com", "https://both.example.com"), other.widgetAgent(true, "https://both.example.com")
	off := b.widgetAgent(false, "https://off.example.com")
	found, err := s.Agents.Widgets(t.Context(), []string{mine.ID, theirs.ID, off.ID, id.New(id.Agent), ""})
	if err != nil {
		t.Fatal(err)
	}
	if len(found) != 2 || found[mine.ID].OrganizationID != b.org || found[theirs.ID].OrganizationID != other.org || found[mine.ID].Secret != "sealed" ||
		found[mine.ID].Name != "n" || !slices.Equal(found[mine.ID].Suggestions, mine.Suggestions) ||
		!found[mine.ID].Attachments || found[theirs.ID].Attachments || !slices.Equal(found[mine.ID].Origins, mine.Widget.AllowedOrigins) || found[mine.ID].AgentID != mine.ID {
		t.Errorf("found %+v", found)
	}
	b.wantListed("one's", "https://a.example.com", true)
	b.wantListed("off", "https://off.example.com", false)
	b.wantListed("part of one", "https://a.example", false)
	for _, leaves := range []func() error{
		func() error { return s.Agents.DeleteAgent(t.Context(), b.org, mine.ID) },
		func() error {
			_, err := s.Agents.UpdateAgent(t.Context(), other.org, theirs.ID, 0, func(a *domain.Agent) error {
				a.Widget.Enabled = false
				return nil
			})
			return err
		},
	} {
		b.wantListed("of two", "https://both.example.com", true)
		if err := leaves(); err != nil {
			t.Fatal(err)
		}
	}
	b.wantListed("of nobody any more", "https://both.example.com", false)
	if found, err = s.Agents.Widgets(t.Context(), []string{mine.ID, theirs.ID}); err != nil || len(found) != 0 {
		t.Errorf("found %+v, %v", found, err)
	}
}

// If a binary that does not support identity secrets writes an agent, the agent's identity secret
// stays unchanged.
func TestIdentitySecretsHaveASeparateColumn(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	a := b.widgetAgent(true, "https://a.example.com")
	if got := b.text(`SELECT widget::text || ' ' || widget_secret FROM agents WHERE id = $1`, a.ID); strings.Count(got, "sealed") != 1 || strings.Contains(got, "identitySecret") {
		t.Errorf("stored as %s", got)
	}
	if got := b.text(`SELECT config FROM agent_configs WHERE target_id = $1`, a.ID); strings.Contains(got, "sealed") {
		t.Errorf("workers get %s", got)
	}
	b.exec(`UPDATE agents SET widget = '{"enabled":true,"allowedOrigins":[]}', version = version + 1 WHERE id = $1`, a.ID) // the same write as in the previous release
	again, err := b.s.Agents.Agent(t.Context(), b.org, a.ID)
	if err != nil || again.Widget.IdentitySecret != "sealed" || a.Widget.IdentitySecret != "sealed" {
		t.Errorf("read as %+v, %v", again.Widget, err)
	}
}

// The cost of looking up an origin does not depend on the number of agents.
func TestOriginsAreFoundByAnIndex(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	b.exec(`INSERT INTO agents (id, org_id, name, description, system_prompt, model, tools, allowed_callers, widget, version)
		SELECT 'ag_' || n, $1, '', '', '', '', '{}', '{user}',
			jsonb_build_object('enabled', n % 2 = 0, 'allowedOrigins', jsonb_build_array('https://' || n || '.example.com')), 1 FROM generate_series(1, 5000) n`, b.org)
	b.exec(`ANALYZE agents`)
	for n, want := range map[int]bool{1000: true, 1001: false} {
		b.wantListed(fmt.Sprint(n), fmt.Sprintf("https://%d.example.com", n), want)
	}
	conn, err := b.raw.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() }) // the connection is only for this test
	// The following statements run as the function's owner, so that the same policies apply as
	// inside the function.
	if _, err := conn.ExecContext(t.Context(), `SET ROLE parley_system`); err != nil {
		t.Fatal(err)
	}
	rows, err := conn.QueryContext(t.Context(), `EXPLAIN SELECT o.origin FROM unnest(ARRAY['https://1000.example.com']) AS o (origin) WHERE EXISTS (SELECT FROM agents a
		WHERE a.widget -> 'allowedOrigins' ? o.origin AND a.deleted_at IS NULL AND a.widget @> '{"enabled": true}')`)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = rows.Close() }() // rows.Err has the error
	var plan []string
	for rows.Next() {
		var line string
		if err := rows.Scan(&line); err != nil {
			t.Fatal(err)
		}
		plan = append(plan, line)
	}
	if err := rows.Err(); err != nil || !strings.Contains(strings.Join(plan, "\n"), "Index Cond: ((widget -> 'allowedOrigins'::text) ? o.origin)") {
		t.Errorf("%v\n%s", err, strings.Join(plan, "\n"))
	}
}

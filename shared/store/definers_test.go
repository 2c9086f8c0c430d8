package store_test

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/lib/pq"

	"parley/shared/store"
	"parley/shared/testkit"
)

// definer is a SECURITY DEFINER function, according to docs/security.md or the catalog.
type definer struct {
	actsFor string
	tables  string // separated by spaces, in order
}

const (
	definersHead  = "| function | acts for | tables | gives or changes |"
	actsForTenant = "organization"
)

// definersOnThePage returns the functions in the table of docs/security.md, by name.
func definersOnThePage(t *testing.T) map[string]definer {
	t.Helper()
	page, err := os.ReadFile(filepath.Join(testkit.Root(t), "docs", "security.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, table, found := strings.Cut(string(page), definersHead+"\n|---|---|---|---|\n")
	if !found {
		t.Fatalf("docs/security.md has no table %s", definersHead)
	}
	table, _, _ = strings.Cut(table, "\n\n")
	quoted := regexp.MustCompile("`([a-z_0-9]+)`")
	names := func(cell string) []string {
		var out []string
		for _, m := range quoted.FindAllStringSubmatch(cell, -1) {
			out = append(out, m[1])
		}
		return out
	}
	out := map[string]definer{}
	for line := range strings.SplitSeq(table, "\n") {
		cells := strings.Split(line, "|")
		if len(cells) != 6 || strings.TrimSpace(cells[4]) == "" {
			t.Fatalf("docs/security.md: %q is no row of four cells", line)
		}
		tables := names(cells[3])
		slices.Sort(tables)
		for _, name := range names(cells[1]) {
			if _, twice := out[name]; twice {
				t.Errorf("docs/security.md names %s twice", name)
			}
			out[name] = definer{strings.TrimSpace(cells[2]), strings.Join(tables, " ")}
		}
	}
	return out
}

// Each SECURITY DEFINER function is in the table in docs/security.md with its tables. A function
// with an organization parameter acts for that organization, and checks that the transaction also
// acts for it.
func TestDefinersAreOnThePage(t *testing.T) {
	t.Parallel()
	db := testkit.SQL(t, testkit.Postgres(t))
	const catalog = ` FROM pg_proc p WHERE p.pronamespace = 'public'::regnamespace AND p.prosecdef `
	inCatalog := map[string]string{}
	for _, row := range texts(t, db, `SELECT p.proname || ' ' || coalesce((SELECT string_agg(c.relname, ' ' ORDER BY c.relname COLLATE "C")
		FROM pg_class c WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p')
		  AND p.prosrc ~ ('\m(FROM|JOIN|UPDATE|INTO|USING)\s+' || c.relname || '\M')), '')`+catalog) {
		name, tables, _ := strings.Cut(row, " ")
		inCatalog[name] = tables
	}
	onPage := definersOnThePage(t)
	if len(inCatalog) < 30 || len(onPage) < 30 {
		t.Fatalf("%d functions in the catalog, %d on the page: one was read wrongly", len(inCatalog), len(onPage))
	}
	for _, name := range slices.Sorted(maps.Keys(inCatalog)) {
		listed, found := onPage[name]
		switch {
		case !found:
			t.Errorf("docs/security.md does not list %s, which reads %s", name, inCatalog[name])
		case listed.tables != inCatalog[name]:
			t.Errorf("docs/security.md lists for %s the tables %s; the function names %s", name, listed.tables, inCatalog[name])
		case !slices.Contains([]string{actsForTenant, "credential", "worker", "sweeper"}, listed.actsFor):
			t.Errorf("docs/security.md says that %s acts for %q", name, listed.actsFor)
		}
	}
	for name := range onPage {
		if _, found := inCatalog[name]; !found {
			t.Errorf("docs/security.md lists %s, which the catalog does not have", name)
		}
	}
	checked := texts(t, db, `SELECT p.proname`+catalog+`AND p.prosrc ~ 'IF \(org = ANY \(parley_organizations\(\)\)\) IS NOT TRUE THEN'`)
	takes := texts(t, db, `SELECT p.proname`+catalog+`AND EXISTS (SELECT FROM unnest(p.proargnames, p.proargmodes) AS a (name, mode)
		WHERE coalesce(a.mode, 'i') = 'i' AND a.name LIKE 'org%')`)
	for name, listed := range onPage {
		if tenant := listed.actsFor == actsForTenant; tenant != slices.Contains(checked, name) || tenant != slices.Contains(takes, name) {
			t.Errorf("%s acts for %s; checks the transaction's organizations: %v; takes an organization: %v", name, listed.actsFor,
				slices.Contains(checked, name), slices.Contains(takes, name))
		}
	}
}

// definerCalls contains calls to the functions that act for an organization: $1 is the
// organization, $2 the prefix of its lexemes, $3 the organization's documents and $4 its agent.
var definerCalls = map[string]string{
	"known_terms":    `known_terms($1, $2, '{secret}') WHERE $3::text[] IS NOT NULL`,
	"search_terms":   `search_terms($1, $2, '{0}', '{secret}', '{1}', $3, '{}', 10)`,
	"search_similar": `search_similar($1, $2, '{0}', '{secrets}', '{secrets}', $3, '{}', 10)`,
	"search_vectors": `search_vectors($1, 'm', '10', '{1,0}', $3, '{}', length($2), 10)`,
	"search_runs": `search_runs($1, 'secret', '', '', NULL, '', '', '', '', '', NULL, NULL::timestamptz, 10, '1 minute')
		WHERE $2::text <> '' AND $3::text[] IS NOT NULL`,
	"reseal_config": `reseal_config($1, $4, 1, '{}', '{}') WHERE $2::text <> '' AND $3::text[] IS NOT NULL`,
}

// In a transaction for one organization, the functions that act for an organization return no rows
// for the ids of another organization. For the organization's own ids they return rows, which shows
// that the test calls them correctly.
func TestDefinersKeepOrganizationsApart(t *testing.T) {
	t.Parallel()
	s, raw := openRaw(t)
	type library struct{ org, prefix, document, agent string }
	newLibrary := func(name string) library {
		b := newEnvOn(t, s, raw, name+"@example.com")
		chunk := chunkFor(0, "secret", name)
		chunk.Vector = []float32{1, 0}
		document := b.readyDocument(nil, chunk)
		b.finish(b.mustClaim(b.accept(wideWindow, b.run("", ""))[0].Run.Run.ID), "secret")
		if n, err := s.Runs.IndexRuns(t.Context(), 10); err != nil || n != 1 {
			t.Fatalf("indexed %d runs, %v", n, err)
		}
		return library{b.org, b.text(`SELECT min(left(u.lexeme, 4)) FROM document_chunks c, unnest(c.terms) u WHERE c.org_id = $1`, b.org), document, b.agent}
	}
	ada, bob := newLibrary("ada"), newLibrary("bob")
	for name, listed := range definersOnThePage(t) {
		call, known := definerCalls[name]
		if known != (listed.actsFor == actsForTenant) {
			t.Errorf("%s acts for %s; this test calls it: %v", name, listed.actsFor, known)
		}
		if !known {
			continue
		}
		for _, c := range []struct {
			acting    string
			of        library
			documents []string
			want      int
		}{
			{ada.org, ada, nil, 1},
			{ada.org, ada, []string{ada.document}, 1},
			{ada.org + "," + bob.org, bob, []string{bob.document}, 1},
			{ada.org, bob, nil, 0},
			{ada.org, bob, []string{bob.document}, 0},
			{"", bob, []string{bob.document}, 0},
		} {
			if got := rowsFor(t, s, c.acting, call, c.of.org, c.of.prefix, pq.Array(append([]string{}, c.documents...)), c.of.agent); got != c.want {
				t.Errorf("%s(%s, documents %v) gave a transaction that acts for %q %d rows, want %d", name, c.of.org, c.documents, c.acting, got, c.want)
			}
		}
	}
}

// rowsFor counts the rows that a function returns in a transaction that the service runs for the
// given organizations.
func rowsFor(t *testing.T, s *store.Store, acting, call string, args ...any) (rows int) {
	t.Helper()
	tx, err := s.SQL().BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback() }() // the transaction only reads
	if _, err := tx.ExecContext(t.Context(), `SELECT set_config('parley.organizations', $1, true)`, acting); err != nil {
		t.Fatal(err)
	}
	query := `SELECT count(*) FROM (SELECT FROM ` + call + `) given WHERE $4::text <> ''`
	if err := tx.QueryRowContext(t.Context(), query, args...).Scan(&rows); err != nil {
		t.Fatalf("%s: %v", call, err)
	}
	return rows
}

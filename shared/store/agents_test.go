package store_test

import (
	"errors"
	"reflect"
	"slices"
	"sync"
	"testing"

	"parley/shared/apierr"
	"parley/shared/domain"
	"parley/shared/id"
	"parley/shared/store"
	"parley/shared/templates"
	"parley/shared/testkit"
)

func newAgent(t *testing.T, s *store.Store, org, name string) domain.Agent {
	t.Helper()
	a, err := s.Agents.CreateAgent(t.Context(), org, domain.Agent{
		ID: id.New(id.Agent), Name: name, SystemPrompt: "You help.",
		Tools: domain.Tools{
			WebSearch: &domain.Switch{Enabled: true},
			HTTPRequest: &domain.HTTPRequestTool{Endpoints: []domain.Endpoint{{
				Name: "crm", Method: "GET", URL: "https://example.com/", Headers: map[string]string{"Authorization": "v1.sealed"},
				InputSchema: map[string]any{"type": "object"}, SideEffect: domain.SideEffectNone,
			}}},
		},
		AllowedCallers: []domain.CallerKind{domain.CallerUser, domain.CallerSystem},
		Widget:         domain.Widget{Enabled: true, AllowedOrigins: []string{"https://example.com"}},
	})
	if err != nil {
		t.Fatalf("creating agent: %v", err)
	}
	return a
}

func TestAgentsComeBackAsStored(t *testing.T) {
	t.Parallel()
	s, ctx := open(t), t.Context()
	account, _ := signUp(t, s, "a@b.c")
	org := account.Organization.ID
	made := newAgent(t, s, org, "Ada")
	got, err := s.Agents.Agent(ctx, org, made.ID)
	if err != nil || !reflect.DeepEqual(got, made) || got.Version != 1 || got.OrganizationID != org {
		t.Errorf("got %+v, %v; want %+v", got, err, made)
	}
	config, err := s.Executions.Config(ctx, org, made.ID, 1)
	if err != nil || config.Name != "Ada" || !reflect.DeepEqual(config.Tools, made.Tools) {
		t.Errorf("configuration %+v, %v", config, err)
	}
}

func TestAgentsStayInTheirOrganization(t *testing.T) {
	t.Parallel()
	s, ctx := open(t), t.Context()
	mine, _ := signUp(t, s, "a@b.c")
	other, _ := signUp(t, s, "b@b.c")
	a := newAgent(t, s, mine.Organization.ID, "Ada")
	_, err := s.Agents.Agent(ctx, other.Organization.ID, a.ID)
	wantCode(t, err, apierr.NotFound)
	_, err = s.Agents.UpdateAgent(ctx, other.Organization.ID, a.ID, 0, func(*domain.Agent) error { return nil })
	wantCode(t, err, apierr.NotFound)
	wantCode(t, s.Agents.DeleteAgent(ctx, other.Organization.ID, a.ID), apierr.NotFound)
	if list, err := s.Agents.Agents(ctx, other.Organization.ID, "", "", 10); err != nil || len(list) != 0 {
		t.Errorf("other organization sees %v, %v", list, err)
	}
}

func TestFallbackModelsAreKeptPerVersion(t *testing.T) {
	t.Parallel()
	s, ctx := open(t), t.Context()
	account, _ := signUp(t, s, "a@b.c")
	org := account.Organization.ID
	a, err := s.Agents.CreateAgent(ctx, org, domain.Agent{
		ID: id.New(id.Agent), Name: "a", AllowedCallers: []domain.CallerKind{domain.CallerUser},
		FallbackModels: []string{"offline/echo", "openai/gpt-5-mini"},
	})
	if err != nil || len(a.FallbackModels) != 2 {
		t.Fatalf("created %+v, %v", a, err)
	}
	second, err := s.Agents.UpdateAgent(ctx, org, a.ID, 0, func(a *domain.Agent) error { a.FallbackModels = nil; return nil })
	if err != nil || second.FallbackModels == nil || len(second.FallbackModels) != 0 {
		t.Errorf("without: %+v, %v", second, err)
	}
	for version, want := range map[int][]string{1: a.FallbackModels, 2: nil} {
		if config, err := s.Executions.Config(ctx, org, a.ID, version); err != nil || !slices.Equal(config.FallbackModels, want) {
			t.Errorf("version %d: %+v, %v", version, config, err)
		}
	}
	if list, err := s.Agents.Agents(ctx, org, "", "", 9); err != nil || list[0].FallbackModels == nil {
		t.Errorf("listed %+v, %v", list, err)
	}
}

func TestUpdateAgent(t *testing.T) {
	t.Parallel()
	s, ctx := open(t), t.Context()
	account, _ := signUp(t, s, "a@b.c")
	org := account.Organization.ID
	a := newAgent(t, s, org, "Ada")
	rename := func(name string) func(*domain.Agent) error {
		return func(a *domain.Agent) error { a.Name = name; return nil }
	}
	got, err := s.Agents.UpdateAgent(ctx, org, a.ID, 1, rename("Bea"))
	if err != nil || got.Version != 2 || got.Name != "Bea" || got.UpdatedAt.Before(got.CreatedAt.Time) {
		t.Fatalf("updated to %+v, %v", got, err)
	}
	_, err = s.Agents.UpdateAgent(ctx, org, a.ID, 1, rename("Cleo"))
	wantCode(t, err, apierr.VersionConflict)
	no := errors.New("no")
	if _, err = s.Agents.UpdateAgent(ctx, org, a.ID, 0, func(*domain.Agent) error { return no }); !errors.Is(err, no) {
		t.Errorf("refused change: %v", err)
	}
	var wg sync.WaitGroup
	for range 5 {
		wg.Go(func() {
			if _, err := s.Agents.UpdateAgent(ctx, org, a.ID, 0, rename("D")); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if got, err = s.Agents.Agent(ctx, org, a.ID); err != nil || got.Version != 7 {
		t.Errorf("version %d, %v; want 7 after 6 updates", got.Version, err)
	}
	if config, err := s.Executions.Config(ctx, org, a.ID, 1); err != nil || config.Name != "Ada" {
		t.Errorf("first configuration changed: %+v, %v", config, err)
	}
}

func TestListAndDeleteAgents(t *testing.T) {
	t.Parallel()
	s, ctx := open(t), t.Context()
	account, _ := signUp(t, s, "a@b.c")
	org := account.Organization.ID
	for _, name := range []string{"Ada", "ÄSOP", "100% real", "Bea"} {
		newAgent(t, s, org, name)
	}
	names := func(q, after string, limit int) (out []string, last string) {
		list, err := s.Agents.Agents(ctx, org, q, after, limit)
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range list {
			out, last = append(out, a.Name), a.ID
		}
		return out, last
	}
	page, last := names("", "", 2)
	if !reflect.DeepEqual(page, []string{"Bea", "100% real"}) {
		t.Errorf("first page %v", page)
	}
	if page, _ = names("", last, 5); !reflect.DeepEqual(page, []string{"ÄSOP", "Ada"}) {
		t.Errorf("second page %v", page)
	}
	for q, want := range map[string][]string{"eA": {"Bea", "100% real"}, "AD": {"Ada"}, "%": {"100% real"}, "_": nil} {
		if page, _ = names(q, "", 5); !reflect.DeepEqual(page, want) {
			t.Errorf("searching %q: %v, want %v", q, page, want)
		}
	}
	if err := s.Agents.DeleteAgent(ctx, org, last); err != nil {
		t.Fatal(err)
	}
	wantCode(t, s.Agents.DeleteAgent(ctx, org, last), apierr.NotFound)
	_, err := s.Agents.Agent(ctx, org, last)
	wantCode(t, err, apierr.NotFound)
	if page, _ = names("", "", 9); len(page) != 3 {
		t.Errorf("after deletion %v", page)
	}
}

func TestSyncTemplates(t *testing.T) {
	t.Parallel()
	dsn, ctx := testkit.Postgres(t), t.Context()
	s, err := store.OpenOwner(dsn, 8)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	all := templates.All()
	var wg sync.WaitGroup
	for range 4 { // simulates ingresses that start concurrently
		wg.Go(func() {
			if err := s.Agents.SyncTemplates(ctx, all); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	check := func(versions map[string]int) {
		t.Helper()
		got, err := s.Agents.Templates(ctx)
		if err != nil || len(got) != len(all) {
			t.Fatalf("templates %v, %v", got, err)
		}
		for i := range got {
			want := all[i]
			want.Version = 1 + versions[want.ID]
			if !reflect.DeepEqual(got[i], want) {
				t.Errorf("template %+v, want %+v", got[i], want)
			}
			if config, err := s.Executions.Config(ctx, "", want.ID, want.Version); err != nil || config.SystemPrompt != want.SystemPrompt {
				t.Errorf("configuration of %s: %v", want.ID, err)
			}
		}
	}
	check(nil)
	all[0], all[1] = all[1], all[0] // a different order does not create a new version
	all[2].SystemPrompt = "changed"
	if err := s.Agents.SyncTemplates(ctx, all); err != nil {
		t.Fatal(err)
	}
	check(map[string]int{all[2].ID: 1})
	if got, err := s.Agents.Template(ctx, all[2].ID); err != nil || got.SystemPrompt != "changed" {
		t.Errorf("template %+v, %v", got, err)
	}
	_, err = s.Agents.Template(ctx, "tpl_none")
	wantCode(t, err, apierr.NotFound)
}

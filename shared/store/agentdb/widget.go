package agentdb

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/lib/pq"

	"parley/shared/domain"
)

// Widget is an agent whose widget is enabled, with the fields that a visitor's request needs.
// Secret is the sealed secret that signs visitors' identities, or empty if the agent has none.
type Widget struct {
	AgentID        string
	OrganizationID string
	Name           string
	Origins        []string
	Secret         string
	Suggestions    []string // the questions that an empty chat offers
	Attachments    bool     // visitors may attach files to their messages
}

// Origin is the value in a map of web origins that at least one enabled widget lists. It has no
// fields, because only the keys of the map matter.
type Origin struct{}

// Widgets returns the agents among agentIDs whose widgets are enabled, by id. The agents may be of
// any organization. An unknown or deleted agent, or one with a disabled widget, is missing in the
// result.
func (s *Store) Widgets(ctx context.Context, agentIDs []string) (map[string]*Widget, error) {
	// A visitor's request names only the agent and no organization. The SQL function therefore
	// reads agents of all organizations.
	stmt, err := s.db.Prepared(ctx, `SELECT id, org_id, name, widget, secret, suggestions FROM parley_widgets($1)`)
	if err != nil {
		return nil, err
	}

	var rows []struct {
		ID             string         `db:"id"`
		OrganizationID string         `db:"org_id"`
		Name           string         `db:"name"`
		Widget         []byte         `db:"widget"`
		Secret         string         `db:"secret"`
		Suggestions    pq.StringArray `db:"suggestions"`
	}
	if err := stmt.SelectContext(ctx, &rows, pq.Array(agentIDs)); err != nil {
		return nil, fmt.Errorf("reading widgets: %w", err)
	}

	out := make(map[string]*Widget, len(rows))
	for _, row := range rows {
		var w domain.Widget
		if err := json.Unmarshal(row.Widget, &w); err != nil {
			return nil, fmt.Errorf("reading widget of %s: %w", row.ID, err)
		}
		out[row.ID] = &Widget{
			AgentID: row.ID, OrganizationID: row.OrganizationID, Name: row.Name, Origins: w.AllowedOrigins, Secret: row.Secret,
			Suggestions: row.Suggestions, Attachments: w.Attachments,
		}
	}

	return out, nil
}

// WidgetOrigins returns the subset of origins that an enabled widget of any organization lists. The
// ingress uses it to answer cross-origin requests of widgets.
func (s *Store) WidgetOrigins(ctx context.Context, origins []string) (map[string]*Origin, error) {
	stmt, err := s.db.Prepared(ctx, `SELECT parley_widget_origins($1)`)
	if err != nil {
		return nil, err
	}

	var listed []string
	if err := stmt.SelectContext(ctx, &listed, pq.Array(origins)); err != nil {
		return nil, fmt.Errorf("reading origins of widgets: %w", err)
	}

	out := make(map[string]*Origin, len(listed))
	for _, origin := range listed {
		out[origin] = &Origin{}
	}

	return out, nil
}

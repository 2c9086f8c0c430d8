package parley

import (
	"context"

	"parley/scripts/bench/internal/load"
)

// Hook makes a hook of GitHub's, and gives a delivery to it, signed with the secret.
func (p *Parley) Hook(ctx context.Context, secret string) (load.Spec, error) {
	var hook struct {
		ID string `json:"id"`
	}
	err := p.post(ctx, "/api/hooks", map[string]string{"x-api-key": p.key}, map[string]any{
		"name": "bench", "agentId": p.agent, "source": "github", "secret": secret,
		"messageTemplate": "An issue was {{action}} in {{repository.full_name}}: {{issue.title}}. {{issue.body}}",
		"filter":          []map[string]any{{"path": "@event", "op": "eq", "value": "issues"}},
	}, &hook)
	return load.Delivery(p.Address(), "/api/hooks/receive/"+hook.ID, secret), err
}

// IngressAlone ends the workers: from then on runs are accepted, and none is carried out.
func (p *Parley) IngressAlone(ctx context.Context) error { return p.SetWorkers(ctx, 0) }

package notification

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"parley/ingress/internal/httpapi/httpx"
	"parley/shared/domain"
	"parley/shared/id"
	"parley/shared/store/notificationdb"
)

// The largest possible page of endpoints or notifications is smaller than httpx.PageBytes.
// Therefore the handlers of these lists need not reserve capacity for a large response.
func TestTheLargestPagesAreSmall(t *testing.T) {
	t.Parallel()
	const (
		maxAddress = 2048 // maximum bytes of an endpoint's URL
		maxReason  = 4096 // maximum bytes of the reason for a failed attempt, which contains a URL
	)
	// In JSON, the character < takes six bytes, the most that any character takes.
	escaped := func(n int) string { return strings.Repeat("<", n) }
	now, agent, reason, code := domain.At(time.Now()), id.New(id.Agent), escaped(maxReason), 999
	endpoint := domain.NotificationEndpoint{
		ID: id.New(id.Endpoint), URL: escaped(maxAddress), Description: escaped(httpx.MaxDescription), Events: domain.NotificationEvents,
		AgentID: &agent, DisabledReason: &reason, DisabledAt: &now, Secret: strings.Repeat("x", 64), PreviousUntil: &now,
		Failures: 1 << 30, LastSuccessAt: &now, CreatedAt: now, UpdatedAt: now,
	}
	message := domain.Notification{
		ID: id.New(id.Notification), EndpointID: endpoint.ID, Event: strings.Repeat("x", 64), Status: domain.NotificationDelivered,
		Attempts: 1 << 30, ResponseCode: &code, NextAttemptAt: &now, CreatedAt: now, DeliveredAt: &now,
	}
	plain := strings.Repeat("x", maxReason) // the service's own messages need no escaping
	message.Error = &plain
	for name, tt := range map[string]struct {
		entry   any
		entries int
	}{
		"endpoints":     {endpoint, notificationdb.MaxEndpoints},
		"notifications": {message, httpx.MaxPage + 1},
	} {
		body, err := json.Marshal(tt.entry)
		if err != nil {
			t.Fatal(err)
		}
		if page := tt.entries * len(body); page > httpx.PageBytes {
			t.Errorf("a page of %s has up to %d bytes", name, page)
		}
	}
}

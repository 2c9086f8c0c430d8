package notify

import (
	"strings"
	"testing"

	"parley/shared/domain"
	"parley/shared/sealed"
	"parley/shared/sealed/sealedtest"
	"parley/shared/store/notificationdb"
	"parley/shared/store/sealdb"
)

// If the key for an endpoint's secret is missing, no notification is sent to the endpoint. The
// owner of the endpoint and the operator both learn the reason. After the secret has been encrypted
// with a new key, the pending notifications are signed and sent.
func TestAnEndpointWhoseKeyIsRemoved(t *testing.T) {
	t.Parallel()
	r := newTestEnv(t)
	r.box = sealedtest.Box(t, sealedtest.KeyA)
	endpointID := r.endpoint("/")
	r.box = sealedtest.Box(t, sealedtest.KeyB)
	_, stop := r.notifier(r.store.Notifications)
	runID := r.fail()
	list, err := r.store.Notifications.Notifications(t.Context(), r.org, notificationdb.NotificationFilter{}, "", 10)
	must(t, err)
	waits := r.until(list[0].ID, func(n domain.Notification) bool { return n.Error != nil })
	if !strings.HasPrefix(*waits.Error, "The endpoint's secret cannot be decrypted") || waits.Status != domain.NotificationPending || len(r.got) > 0 {
		t.Errorf("without the key: %+v", waits)
	}
	if e, err := r.store.Notifications.Endpoint(t.Context(), r.org, endpointID); err != nil || e.Failures != 0 {
		t.Errorf("the endpoint is blamed: %+v, %v", e, err)
	}
	stop()
	keyA := sealedtest.Box(t, sealedtest.KeyA).KeyIDs()[0]
	if n := strings.Count(r.log.String(), "\n"); n != 1 {
		t.Errorf("%d lines of the log: %s", n, &r.log)
	}
	for _, want := range []string{`"level":"error"`, `"kind":"notification"`, `"key_id":"` + keyA, `"org_id":"` + r.org, `"endpoint_id":"` + endpointID} {
		if !strings.Contains(r.log.String(), want) {
			t.Errorf("the log lacks %s: %s", want, &r.log)
		}
	}
	both := sealedtest.Box(t, sealedtest.KeyB+","+sealedtest.KeyA)
	_, err = sealed.Reseal(t.Context(), r.store.Seals, both, func(v sealdb.Value) { t.Errorf("not opened: %s", v) }, func(sealed.Outcome) {})
	must(t, err)
	r.notifier(r.store.Notifications)
	r.due()
	if got := r.next(); !r.holds(got, secret) || !strings.Contains(string(got.body), runID) {
		t.Errorf("sent %v %s", got.header, got.body)
	}
}

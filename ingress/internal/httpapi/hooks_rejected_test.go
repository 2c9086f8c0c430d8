package httpapi

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"parley/shared/store/hookdb"
)

// deliverFrom sends a delivery from a client address. If the argument wrong is true, the delivery
// is signed with a wrong secret.
func (a *runEnv) deliverFrom(hookID, address, deliveryID string, wrong bool) answer {
	a.t.Helper()
	req := a.delivery(hookID, "hmac", deliveryID, "", `{"b":1}`)
	if req.RemoteAddr = address + ":1"; wrong {
		req.Header.Set("X-Signature", strings.Repeat("0", 64))
	}
	return a.send(req)
}

// statuses returns the statuses of the deliveries in a page of a log.
func statuses(t *testing.T, log answer) (out []string) {
	t.Helper()
	var page struct {
		Data []struct {
			Status string `json:"status"`
		} `json:"data"`
	}
	must(t, json.Unmarshal(log.body, &page))
	for _, d := range page.Data {
		out = append(out, d.Status)
	}
	return out
}

// A delivery without a valid signature appears in the hook's log, with the reason and the sender's
// address but without the body. Repetitions share one entry.
func TestRejectedDeliveriesAreLogged(t *testing.T) {
	t.Parallel()
	a := newRunEnv(t)
	h := a.newTestOrg("home")
	hookID := a.newHook(h, "hmac", `"deliveryIdHeader":"X-Id"`)
	for range 3 {
		a.deliverFrom(hookID, "192.0.2.1", "d1", true).want(t, "wrong", 401, "unauthenticated")
	}

	log := a.ok("GET", "/api/hooks/deliveries?hookId="+hookID, "", h.key)
	if log.json(t, "data.1") != nil || log.text(t, "data.0.status") != "rejected" || log.text(t, "data.0.error.code") != "unauthenticated" ||
		log.text(t, "data.0.error.message") != "the signature does not match the body and the webhook's secret; sent from 192.0.2.1" ||
		log.json(t, "data.0.kept") != false || log.json(t, "data.0.bytes") != 7.0 || log.json(t, "data.0.runId") != nil {
		t.Errorf("the log: %s", log.body)
	}
	entry := log.text(t, "data.0.id")
	if one := a.ok("GET", "/api/hooks/deliveries?hookId="+hookID+"&id="+entry, "", h.key); one.json(t, "body") != nil {
		t.Errorf("the entry: %s", one.body)
	}
	a.from("POST", "/api/hooks/deliveries?action=redeliver&hookId="+hookID+"&id="+entry, "", h.key).want(t, "redelivered", 400, "invalid_request id:invalid_value")
	if got := a.ok("GET", "/api/hooks?id="+hookID, "", h.key); got.json(t, "lastDeliveryAt") != nil || got.json(t, "lastRejectedAt") != log.json(t, "data.0.receivedAt") {
		t.Errorf("the times of the hook's last deliveries: %s", got.body)
	}

	token := a.newHook(h, "token")
	bare := a.delivery(token, "token", "d1", "", `{"b":1}`)
	unsign(bare)
	a.send(bare).want(t, "without a token", 401, "unauthenticated")
	if log := a.ok("GET", "/api/hooks/deliveries?hookId="+token, "", h.key); !strings.HasPrefix(log.text(t, "data.0.error.message"), "the delivery has no token in the webhook's header X-Token; sent from ") {
		t.Errorf("the log of a delivery without a token: %s", log.body)
	}

	req := a.delivery(hookID, "hmac", "d2", "", `{"b":1}`)
	unsign(req)
	a.send(req).want(t, "unsigned", 401, "unauthenticated")
	a.deliverFrom(hookID, "192.0.2.1", "d1", false).want(t, "right", 202, "")
	for query, want := range map[string]string{
		"": "accepted, rejected, rejected", "&status=rejected": "rejected, rejected", "&status=accepted": "accepted", "&status=refused": "",
	} {
		got := a.ok("GET", "/api/hooks/deliveries?hookId="+hookID+query, "", h.key)
		if statuses := strings.Join(statuses(t, got), ", "); statuses != want {
			t.Errorf("%q: %s, want %s", query, statuses, want)
		}
	}
}

// Strangers who know a hook's URL can add only a few entries to its log. They do not displace
// entries of other senders, such as those of a verified source that has become misconfigured.
func TestStrangersDoNotFillTheLog(t *testing.T) {
	t.Parallel()
	a := newRunEnv(t)
	h := a.newTestOrg("home")
	hookID := a.newHook(h, "hmac", `"deliveryIdHeader":"X-Id"`)
	for n := range 10 {
		a.deliverFrom(hookID, "192.0.2.1", fmt.Sprint("real-", n), false).want(t, "real", 202, "")
	}
	a.deliverFrom(hookID, "192.0.2.1", "mistake", true).want(t, "the source's mistake", 401, "unauthenticated")
	for n := range 100 {
		a.deliverFrom(hookID, fmt.Sprintf("198.51.100.%d", n), "flood", true).want(t, "flood", 401, "unauthenticated")
	}

	log := a.ok("GET", "/api/hooks/deliveries?hookId="+hookID, "", h.key)
	count := map[string]int{}
	for _, status := range statuses(t, log) {
		count[status]++
	}
	if count["accepted"] != 10 || count["rejected"] != hookdb.MaxRejected+1 || !strings.Contains(string(log.body), "sent from 192.0.2.1\"") {
		t.Errorf("%v: %s", count, log.body)
	}
	var rows, newest int
	must(t, a.sql.QueryRowContext(t.Context(), `SELECT count(*), count(*) FILTER (WHERE error_message LIKE '%198.51.100.29')
		FROM deliveries WHERE hook_id = $1 AND status = 'rejected'`, hookID).Scan(&rows, &newest))
	if rows != hookdb.MaxRejected+1 || newest != 1 {
		t.Errorf("%d rows, %d of the last one within the limit of a minute", rows, newest)
	}
}

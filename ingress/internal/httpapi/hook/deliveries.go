package hook

import (
	"context"
	"encoding/base64"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/gin-gonic/gin"

	"parley/ingress/internal/httpapi/httpx"
	"parley/ingress/internal/webhookin"
	"parley/ingress/internal/webhookin/intake"
	"parley/shared/apierr"
	"parley/shared/domain"
	"parley/shared/id"
	"parley/shared/store/hookdb"
)

const (
	maxDeliveryID = 255 // characters
	// Separates the id of a delivery from the number of its redelivery.
	redeliveredSuffix = "~redelivered-"
	maxRedelivered    = 100 // maximum number of times that one delivery can be redelivered
	actionRedeliver   = "redeliver"
	testEvent         = "test"
	testPayload       = `{"test":true,"text":"A test delivery."}`
)

// deliveryStatuses are the values of the filter status.
var deliveryStatuses = []domain.DeliveryStatus{
	domain.DeliveryAccepted, domain.DeliveryCoalesced, domain.DeliveryFiltered, domain.DeliveryAnswered, domain.DeliveryRefused,
	domain.DeliveryRejected,
}

// deliveryView is one delivery in a response. It contains the body of the delivery if the body is
// stored. Otherwise Body and ContentType are nil.
type deliveryView struct {
	domain.Delivery

	ContentType *string `json:"contentType"`
	Body        *string `json:"body"`
}

// getDeliveries handles GET /api/hooks/deliveries: it returns a page of the log of deliveries, or
// with ?id= one delivery. The source chooses the id, which is unique only within a hook. The id is
// therefore not checked like other ids.
func (h *Handler) getDeliveries(c *gin.Context) error {
	found := &httpx.Problems{}
	hookID, _ := httpx.QueryValue(c, "hookId", found)
	deliveryID, one := httpx.QueryValue(c, "id", found)
	if err := found.Err(); err != nil {
		return err
	}

	if one {
		hookID, err := h.hookFor(c, hookID, deliveryID)
		if err != nil {
			return err
		}
		return h.getDelivery(c, hookID, deliveryID)
	}

	return h.listDeliveries(c, hookID)
}

// hookFor returns the id of a delivery's hook: hookID if it is not empty, or else the id of the
// only hook that has a delivery with this id. The error is not_found if there is no such hook, and
// an invalid request for hookId if there are several.
func (h *Handler) hookFor(c *gin.Context, hookID, deliveryID string) (string, error) {
	if hookID != "" {
		return hookID, h.ownHook(c, hookID)
	}
	if !httpx.IsText(deliveryID) {
		return "", httpx.NotFound()
	}

	hooks, err := h.HooksDB.HooksOfDelivery(c.Request.Context(), httpx.Caller(c).OrganizationID, deliveryID)
	switch {
	case err != nil:
		return "", err
	case len(hooks) == 0:
		return "", httpx.NotFound()
	case len(hooks) > 1:
		return "", apierr.Invalid("hookId", httpx.CodeRequired, "several hooks have a delivery with this id: add hookId")
	}

	return hooks[0], nil
}

// ownHook returns not_found unless the hook belongs to the caller's organization. Any text can be
// passed as hookID.
func (h *Handler) ownHook(c *gin.Context, hookID string) error {
	if !id.Valid(id.Hook, hookID) {
		return apierr.Missing()
	}
	_, err := h.HooksDB.Hook(c.Request.Context(), httpx.Caller(c).OrganizationID, hookID)
	return err
}

// getDelivery responds with one delivery. Before it reads the delivery's body, it waits until there
// is capacity for a large response. Invalid UTF-8 in the body is replaced, so the response may
// differ from the original.
func (h *Handler) getDelivery(c *gin.Context, hookID, deliveryID string) error {
	ctx, org := c.Request.Context(), httpx.Caller(c).OrganizationID
	known, err := h.HooksDB.Delivery(ctx, org, hookID, deliveryID)
	if err != nil {
		return err
	}

	view := deliveryView{Delivery: known}
	if known.Kept {
		if err := httpx.ReserveAnswer(c, int(known.Bytes)); err != nil {
			return err
		}

		body, contentType, err := h.HooksDB.DeliveryBody(ctx, org, hookID, deliveryID)
		if err != nil {
			return err
		}

		// A delivery may contain any bytes, but a JSON string must be UTF-8.
		text := strings.ToValidUTF8(string(body), "\uFFFD")
		view.ContentType, view.Body = &contentType, &text
	}

	return httpx.JSON(c, http.StatusOK, view)
}

// listDeliveries responds with the log of deliveries to an organization's hooks, newest first. An
// empty hookID means all hooks. Filters by run and status can be combined with the hook. The hook
// and the run must exist in the organization.
func (h *Handler) listDeliveries(c *gin.Context, hookID string) error {
	found := &httpx.Problems{}
	if err := h.CheckReferences(c, found, "hookId", "runId"); err != nil {
		return err
	}

	filter := hookdb.DeliveryFilter{HookID: hookID}
	filter.RunID, _ = httpx.QueryValue(c, "runId", found)
	if status, present := httpx.QueryValue(c, "status", found); present {
		filter.Status = domain.DeliveryStatus(status)
		if !slices.Contains(deliveryStatuses, filter.Status) {
			found.Add("status", httpx.CodeInvalidValue, "must be accepted, coalesced, filtered, answered, refused or rejected")
		}
	}

	// A cursor contains the number of a row, because the ids of deliveries come from their sources
	// and have no order.
	p := httpx.Page{Limit: httpx.ReadLimit(c, found)}
	if text, present := httpx.QueryValue(c, "cursor", found); present {
		last, err := base64.RawURLEncoding.Strict().DecodeString(text)
		if filter.Before, _ = strconv.ParseInt(string(last), 10, 64); err != nil || filter.Before < 1 {
			found.Add("cursor", httpx.CodeInvalidValue, "must be the nextCursor of a page of this list")
		}
	}

	if err := found.Err(); err != nil {
		return err
	}

	logged, err := h.HooksDB.Deliveries(c.Request.Context(), httpx.Caller(c).OrganizationID, filter, p.Limit+1)
	if err != nil {
		return err
	}

	// Ref is the number of the row. It appears only in the cursor and not in the response.
	page := httpx.NewList(logged, p, func(d hookdb.LoggedDelivery) string { return strconv.FormatInt(d.Ref, 10) })
	shown := httpx.List[domain.Delivery]{Data: make([]domain.Delivery, len(page.Data)), HasMore: page.HasMore, NextCursor: page.NextCursor}
	for i, d := range page.Data {
		shown.Data[i] = d.Delivery
	}

	return httpx.JSON(c, http.StatusOK, shown)
}

// postDeliveries handles POST /api/hooks/deliveries?hookId=&id=&action=redeliver: it starts a new
// run with the body of an earlier delivery, even if the hook's filter does not match it. The status
// is 202. The body must be stored, and the hook must accept deliveries. The new run uses the
// current configuration of the hook.
func (h *Handler) postDeliveries(c *gin.Context) error {
	found := &httpx.Problems{}
	hookID, within := httpx.QueryValue(c, "hookId", found)
	if !within {
		found.Add("hookId", httpx.CodeRequired, `is required with "id", which is unique only within a hook`)
	}

	deliveryID, present := httpx.QueryValue(c, "id", found)
	if action, _ := httpx.QueryValue(c, "action", found); action != actionRedeliver {
		found.Add("action", httpx.CodeInvalidValue, "must be redeliver")
	}
	if !present {
		found.Add("id", httpx.CodeRequired, "is required: the delivery's id")
	}
	if err := found.Err(); err != nil {
		return err
	}

	// Read the hook without the cache, because the user may just have changed it.
	hook, err := h.openHook(c, hookID)
	if err != nil {
		return err
	}

	result, err := h.redeliver(c, hook, deliveryID)
	if err != nil {
		return err
	}

	return httpx.JSON(c, http.StatusAccepted, result)
}

// openHook reads the current state of an organization's hook. If the hook rejects deliveries
// because it is disabled or its API key is no longer valid, openHook returns the error conflict.
// The error is not_found for a hook of another organization. The hook contains its decrypted
// secrets.
func (h *Handler) openHook(c *gin.Context, hookID string) (*intake.Hook, error) {
	if err := h.ownHook(c, hookID); err != nil {
		return nil, err
	}

	// Drop the hook from the cache, which may be up to 5 seconds old, because users expect that a
	// change takes effect immediately.
	h.Hooks.Forget(hookID)
	hook, err := h.Hooks.Get(c.Request.Context(), hookID)
	if apierr.CodeFor(err) == apierr.NotFound {
		return nil, apierr.New(apierr.Conflict,
			"the hook accepts no deliveries: it is disabled, or its API key is no longer valid; enable it or set another keyId")
	}
	return hook, err
}

// redeliver processes a stored delivery again. The new delivery has its own id, which contains the
// number of the redelivery. redeliver uses the first free number, even if other requests redeliver
// the same delivery concurrently. After maxRedelivered redeliveries, the error is an invalid
// request for id.
func (h *Handler) redeliver(c *gin.Context, hook *intake.Hook, deliveryID string) (intake.Receipt, error) {
	ctx, org := c.Request.Context(), hook.OrganizationID

	known, err := h.HooksDB.Delivery(ctx, org, hook.ID, deliveryID)
	if err != nil {
		return intake.Receipt{}, err
	}
	if !known.Kept {
		return intake.Receipt{}, apierr.Invalid("id", httpx.CodeInvalidValue,
			"the body of this delivery is not stored: the delivery was filtered or rejected, its run was "+
				"erased or has expired, or the body has more than %d bytes", hookdb.MaxDeliveryBody)
	}

	body, contentType, err := h.HooksDB.DeliveryBody(ctx, org, hook.ID, deliveryID)
	if err != nil {
		return intake.Receipt{}, err
	}

	// The original headers are not stored, so take the event's name from the log.
	event := webhookin.Read(hook.Source, "", http.Header{"Content-Type": {contentType}}, body)

	// The challenge of the source was answered when the original delivery arrived.
	event.Name, event.Answer = known.Event, nil
	delivered := intake.Delivered{ContentType: contentType, Body: body, Traceparent: httpx.Traceparent(c), Again: true}

	for n := 1; n <= maxRedelivered; n++ {

		event.ID = redeliveredID(known.ID, n)
		free, err := h.isNew(ctx, hook, event.ID)
		if err != nil {
			return intake.Receipt{}, err
		}
		if !free {
			continue
		}
		result, err := h.intake.Take(ctx, hook, &event, delivered)
		if err != nil || !result.Duplicate { // after a duplicate, try the next id, because another request has just used this id
			return result, err
		}
	}

	return intake.Receipt{}, apierr.Invalid("id", httpx.CodeInvalidValue,
		"was already redelivered %d times, which is the maximum", maxRedelivered)
}

// redeliveredID returns the id of a delivery's nth redelivery. If the delivery is itself a
// redelivery, the new id is derived from the original delivery's id. Ids therefore do not grow with
// each redelivery.
func redeliveredID(deliveryID string, n int) string {
	if at := strings.LastIndex(deliveryID, redeliveredSuffix); at > 0 {
		deliveryID = deliveryID[:at]
	}
	out := deliveryID + redeliveredSuffix + strconv.Itoa(n)
	for utf8.RuneCountInString(out) > maxDeliveryID { // unreachable: ids are shorter
		out = out[1:]
	}
	return out
}

// isNew reports whether the hook has no delivery with this id yet. Another request may use the id
// before the caller does; Take detects that.
func (h *Handler) isNew(ctx context.Context, hook *intake.Hook, deliveryID string) (bool, error) {
	_, err := h.HooksDB.Delivery(ctx, hook.OrganizationID, hook.ID, deliveryID)
	if apierr.CodeFor(err) == apierr.NotFound {
		return true, nil
	}
	return false, err
}

// testHook handles POST /api/hooks?id=&action=test: it creates a delivery, signs it as the hook's
// source would, and processes it like any other delivery. The request's body is optional. The
// status is 202. The delivery appears in the log and can start a real run.
func (h *Handler) testHook(c *gin.Context) error {
	hookID, body, err := actionOnHook[testHookBody](c)
	if err != nil {
		return err
	}

	hook, err := h.openHook(c, hookID)
	if err != nil {
		return err
	}

	payload := []byte(testPayload)
	if body.Payload.Set {
		payload = body.Payload.Value
	}

	name, testID := body.Event.Or(testEvent), "test-"+id.Suffix(id.New(id.Hook))
	sent, err := webhookin.Signed(&hook.Hook, hook.Secrets[0], testID, name, payload, time.Now())
	if err != nil {
		return err
	}

	// Verify the signature like that of a real delivery, so that the test finds mistakes in the
	// hook's configuration.
	event, err := readEvent(hook, sent.Header, sent.Body)
	if err != nil {
		return err
	}

	event.ID, event.Name = testID, name // the payload of a test may lack the id and the name, which some sources send in the payload
	result, err := h.intake.Take(c.Request.Context(), hook, &event, intake.Delivered{
		ContentType: httpx.ContentJSON, Body: sent.Body, Traceparent: httpx.Traceparent(c),
	})
	if err != nil {
		return err
	}

	return httpx.JSON(c, http.StatusAccepted, result)
}

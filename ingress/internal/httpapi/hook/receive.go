package hook

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/gin-gonic/gin"

	"parley/ingress/internal/auth"
	"parley/ingress/internal/dispatch"
	"parley/ingress/internal/httpapi/httpx"
	"parley/ingress/internal/httpapi/transfer"
	"parley/ingress/internal/webhookin"
	"parley/shared/apierr"
	"parley/shared/contract"
	"parley/shared/domain"
	"parley/shared/id"
	"parley/shared/store/budgetdb"
	"parley/shared/store/hookdb"
	"parley/shared/store/queuedb"
)

const (
	// ReceivePath is where deliveries are sent, followed by the hook's id.
	ReceivePath = "/api/hooks/receive/"
	// MaxDelivery is how many bytes a delivery may have.
	MaxDelivery = 25 << 20 // bytes, as much as GitHub sends
	// DeliveryBegins is how many bytes of a delivery are believed before they have come.
	DeliveryBegins = 4 << 10  // bytes that are believed before they have come
	payloadPassed  = 64 << 10 // bytes of a payload that are handed to the agent
	contentMost    = 200      // bytes of a Content-Type that are kept
	triggerWebhook = "webhook"

	// Deliveries that are not signed as they should be, of one address to one hook: enough for a source that was set up wrongly, and
	// that it need not wait long once it is right; too few to guess at secrets.
	unsignedMost   = 120
	unsignedWindow = time.Minute

	// Deliveries of more than transfer.MediumBody that may come to an ingress at once: each is in memory as a whole. Senders that are not
	// verified yet have bounds of their own, and the slots beyond those are for verified ones.
	deliveriesPerHook = 2
	// DeliveriesPerOrganization is how many large deliveries an organization may have at an ingress.
	DeliveriesPerOrganization = 3
	deliveriesAtOnce          = 8
	strangersPerHook          = 1
	strangersPerOrganization  = 2
	strangersPerAddress       = 2
	strangersAtOnce           = 4

	// Deliveries of more than transfer.SmallBody, and no more than transfer.MediumBody. Those who know the address of a hook may be several
	// beside its source, so a hook may have half of the strangers' slots.
	mediumPerHook          = 8
	mediumPerOrganization  = 16
	mediumAtOnce           = 64
	mediumStrangersPerHook = 16
	mediumStrangersAtOnce  = 32

	deliveryPace = 128 << 10 // bytes a second: servers send them
)

// sharedSources send to everybody from the same addresses, and two of them send nothing again that was refused for long.
var sharedSources = []domain.HookSource{domain.HookGitHub, domain.HookStripe, domain.HookSlack}

// LargeDeliveries is the policy of deliveries of more than transfer.MediumBody, MediumDeliveries that of those that are larger than
// transfer.SmallBody, and SmallDeliveries that of the others.
var (
	LargeDeliveries = &transfer.Policy{
		Bounds: transfer.Bounds{
			PerCredential: deliveriesPerHook, PerOrganization: DeliveriesPerOrganization,
			PerAddress: deliveriesAtOnce / transfer.AddressShare, AtOnce: deliveriesAtOnce,
		},
		Strangers: transfer.Bounds{
			PerCredential: strangersPerHook, PerOrganization: strangersPerOrganization, PerAddress: strangersPerAddress, AtOnce: strangersAtOnce,
		}, Pace: deliveryPace, Patience: transfer.PaceTime, Queue: transfer.QueueTime, QueueOwn: true,
		Doing: "taking too many large deliveries at once", TooMany: "too many large deliveries are coming at once", Limit: transfer.LimitArrival,
	}
	MediumDeliveries = &transfer.Policy{
		Bounds: transfer.Bounds{
			PerCredential: mediumPerHook, PerOrganization: mediumPerOrganization,
			PerAddress: mediumAtOnce / transfer.AddressShare, AtOnce: mediumAtOnce,
		},
		Strangers: transfer.Bounds{
			PerCredential: mediumStrangersPerHook, PerOrganization: mediumStrangersPerHook, PerAddress: strangersPerAddress,
			AtOnce: mediumStrangersAtOnce,
		}, Pace: deliveryPace, Patience: transfer.PaceTime, Queue: transfer.QueueTime, QueueOwn: true,
		Doing: LargeDeliveries.Doing, TooMany: LargeDeliveries.TooMany, Limit: transfer.LimitArrival,
	}
	SmallDeliveries = smallDeliveries()
)

// smallDeliveries are small bodies that wait for a slot whatever bound they have met.
func smallDeliveries() *transfer.Policy {
	policy := *transfer.SmallBodies
	policy.QueueOwn = true
	policy.Doing, policy.TooMany = "taking too many deliveries at once", "too many deliveries are coming at once"
	return &policy
}

// receivedView is what a source is told of a delivery that was taken.
type receivedView struct {
	DeliveryID string                `json:"deliveryId"`
	Status     domain.DeliveryStatus `json:"status"`
	RunID      *string               `json:"runId"`
	Duplicate  bool                  `json:"duplicate"`
	Error      *domain.RunError      `json:"error"`
}

// ReceiveDelivery is POST /api/hooks/receive/<id>. No credential counts here but the signature.
func (h *Handler) ReceiveDelivery(c *gin.Context) {
	hook, err := h.receiving(c)
	if err != nil {
		httpx.Fail(c, err)
		return
	}
	httpx.StateOf(c).Source = hook.Source
	client := h.Auth.DemoClient(c.Request)
	sender := hook.ID + " " + client
	verified := h.senders.know(sender) || slices.Contains(hook.Senders, client)
	if wait := h.Unsigned.Wait(sender); wait > 0 && !readsAnyway(c, hook, verified) {
		httpx.Fail(c, httpx.RateLimited(wait, "too many deliveries to this hook that were not signed as they should be"))
		return
	}
	if err := webhookin.VerifyHeaders(hook.Source, hook.SignatureHeader, hook.secrets, c.Request.Header, time.Now()); err != nil {
		h.Unsigned.Begin(sender)
		httpx.Fail(c, apierr.New(apierr.Unauthenticated, "%s", err))
		return
	}
	who := transfer.Owner{Organization: hook.OrganizationID, Credential: hook.ID, Client: client, Stranger: !verified}
	httpx.StateOf(c).Stranger = who.Stranger
	body, leave, err := h.deliveryBody(c, who)
	if err != nil {
		if who.Stranger { // it counts, whether it was refused, was cut or broke off
			h.Unsigned.Begin(sender)
		}
		httpx.Fail(c, err)
		return
	}
	defer leave()
	if hook, err = h.receiving(c); err != nil { // it may have ended while the body came
		httpx.Fail(c, err)
		return
	}
	event, err := readEvent(hook, c.Request.Header, body)
	if err != nil {
		h.Unsigned.Begin(sender)
		httpx.Fail(c, err)
		return
	}
	h.verify(c.Request.Context(), hook, client)
	httpx.StateOf(c).Ident = auth.Identity{Caller: hook.caller()} // for the log: now it is known whose request it is
	h.Auth.Used(hook.KeyID)
	taken, err := h.take(c.Request.Context(), hook, &event, delivered{
		contentType: c.GetHeader("Content-Type"), body: body, traceparent: httpx.Traceparent(c),
	})
	if err != nil {
		httpx.Fail(c, err)
		return
	}
	httpx.StateOf(c).Delivery = taken.Status
	if taken.RunID != nil {
		httpx.About(c, hook.AgentID, *taken.RunID, "")
	}
	if event.Answer != nil {
		httpx.WriteJSON(c, http.StatusOK, event.Answer)
		return
	}
	httpx.WriteJSON(c, http.StatusAccepted, taken)
}

// readsAnyway reports whether a delivery is read although its address has sent the hook too many unsigned ones. All customers of GitHub,
// Stripe and Slack share their addresses, and any of them could hold off another's deliveries: of verified addresses all are read, of
// others those that are small.
func readsAnyway(c *gin.Context, hook *liveHook, verified bool) bool {
	length := c.Request.ContentLength
	return slices.Contains(sharedSources, hook.Source) && (verified || length >= 0 && length <= transfer.SmallBody)
}

// receiving is the hook that a request's path names.
func (h *Handler) receiving(c *gin.Context) (*liveHook, error) {
	hookID := c.Param("id")
	if !id.Valid(id.Hook, hookID) {
		return nil, apierr.New(apierr.NotFound, "no such resource")
	}
	return h.Hooks.get(c.Request.Context(), hookID)
}

// readEvent checks a delivery's signature and reads it.
func readEvent(hook *liveHook, header http.Header, body []byte) (webhookin.Event, error) {
	err := webhookin.Verify(hook.Source, hook.SignatureHeader, hook.secrets, header, body, time.Now())
	if err != nil {
		return webhookin.Event{}, apierr.New(apierr.Unauthenticated, "%s", err)
	}
	return webhookin.Read(hook.Source, hook.DeliveryIDHeader, header, body), nil
}

// deliveryBody reads a delivery as it came. leave must be called when it is needed no more.
func (h *Handler) deliveryBody(c *gin.Context, who transfer.Owner) (body []byte, leave func(), err error) {
	if c.Request.Body == nil {
		return nil, func() {}, nil
	}
	in, err := transfer.Receive(c, who, httpx.Permit{}, transfer.Step{All: &h.Small, Most: transfer.SmallBody},
		transfer.Step{All: &h.Medium, Most: transfer.MediumBody}, transfer.Step{All: &h.Large, Most: MaxDelivery})
	if err != nil {
		return nil, nil, err
	}
	if body, err = readWhole(in, c.Request.ContentLength); err != nil {
		in.Leave()
		return nil, nil, err
	}
	in.Complete()
	return body, in.Leave, nil
}

func readWhole(from io.Reader, length int64) ([]byte, error) {
	var buf bytes.Buffer
	if length > 0 {
		buf.Grow(int(min(length, DeliveryBegins)) + bytes.MinRead)
	}
	if _, err := buf.ReadFrom(from); err != nil {
		if _, coded := errors.AsType[*apierr.Error](err); coded {
			return nil, err
		}
		return nil, apierr.Wrap(apierr.InvalidRequest, fmt.Errorf("reading body: %w", err), "the body did not arrive whole")
	}
	return buf.Bytes(), nil
}

// delivered is what is kept of a delivery beside its event.
type delivered struct {
	contentType string
	body        []byte
	traceparent string
	again       bool // somebody wants it run, whatever the filter says
}

// take logs a verified delivery, and accepts the run that the hook's rules make of it. One that was seen before gives what came
// of it then. A delivery that nothing can be run for is no error: sources would give the hook up. Over the limit of requests it is not
// logged.
func (h *Handler) take(ctx context.Context, hook *liveHook, e *webhookin.Event, of delivered) (receivedView, error) {
	limit, err := h.Limits.Check(ctx, hook.caller())
	if err != nil {
		return receivedView{}, fmt.Errorf("checking limit: %w", err)
	}
	d, err := h.decide(ctx, hook, e, of)
	if err != nil {
		return receivedView{}, err
	}
	if !limit.Allowed {
		if err := h.putOff(ctx, hook, &d, limit.RetryAfter); err != nil {
			return receivedView{}, err
		}
	}
	deliver := h.deliver
	if !limit.Allowed && d.Run == nil {
		deliver = h.unlogged
	}
	accepted, err := deliver(ctx, d)
	if err != nil {
		return receivedView{}, err
	}
	was := accepted.Delivery
	if limit.Allowed && !costs(&d, &accepted) {
		h.Limits.Refund(hook.caller())
	}
	return receivedView{DeliveryID: was.ID, Status: was.Status, RunID: was.RunID, Duplicate: accepted.Existing, Error: was.Error}, nil
}

// putOff says of a delivery over the limit that its run is to wait: it may not come again. One that no run could come of has none: it is
// not logged.
func (h *Handler) putOff(ctx context.Context, hook *liveHook, d *queuedb.NewDelivery, wait time.Duration) error {
	if d.Run == nil {
		return nil
	}
	agent, err := h.AgentsDB.Agent(ctx, hook.OrganizationID, hook.AgentID)
	switch {
	case apierr.CodeOf(err) == apierr.NotFound:
		refuse(d, apierr.NotFound, queuedb.HookWithoutAgent)
		d.Run = nil
	case err != nil:
		return err
	case !slices.Contains(agent.AllowedCallers, domain.CallerSystem):
		refuse(d, apierr.CallerNotAllowed, queuedb.CallerLeftOut(domain.CallerSystem))
		d.Run = nil
	default:
		d.Run.Hold = wait
	}
	return nil
}

// costs says that a delivery counts against the limit, as all do that are logged: but for one that has joined another's run, of which each
// takes no more than so many, and one that was seen before.
func costs(d *queuedb.NewDelivery, accepted *queuedb.AcceptedDelivery) bool {
	joined := d.Run != nil && accepted.Delivery.RunID != nil && *accepted.Delivery.RunID != d.Run.ID
	return !joined && !accepted.Existing
}

// deliver logs a delivery. One for whose run a budget has no room any more, though it had just before, is refused; if it was put off, too,
// it is not logged.
func (h *Handler) deliver(ctx context.Context, d queuedb.NewDelivery) (queuedb.AcceptedDelivery, error) {
	accepted, err := h.deliverOnce(ctx, d)
	if apierr.CodeOf(err) != apierr.BudgetExceeded {
		return accepted, err
	}
	over := d.Run != nil && d.Run.Hold > 0
	refuse(&d, apierr.BudgetExceeded, detailOf(err))
	d.Run, d.Collect = nil, nil
	if over {
		return h.unlogged(ctx, d)
	}
	return h.deliverOnce(ctx, d)
}

// unlogged gives the run of a delivery that was seen before. Of any other it says what it would have been.
func (h *Handler) unlogged(ctx context.Context, d queuedb.NewDelivery) (queuedb.AcceptedDelivery, error) {
	seen, err := h.HooksDB.Delivery(ctx, d.OrganizationID, d.HookID, d.ID)
	if err != nil && apierr.CodeOf(err) != apierr.NotFound {
		return queuedb.AcceptedDelivery{}, err
	}
	if seen.RunID != nil {
		return queuedb.AcceptedDelivery{Delivery: seen, Existing: true}, nil
	}
	return queuedb.AcceptedDelivery{Delivery: domain.Delivery{ID: d.ID, Status: d.Status, Error: d.Error}}, nil
}

func (h *Handler) deliverOnce(ctx context.Context, d queuedb.NewDelivery) (queuedb.AcceptedDelivery, error) {
	accepted, err := h.Dispatch.Deliver(ctx, d)
	if err == nil {
		err = accepted.Err
	}
	return accepted, err
}

// decide says of a delivery what is to become of it: answered, filtered, refused, or a run.
func (h *Handler) decide(ctx context.Context, hook *liveHook, e *webhookin.Event, of delivered) (queuedb.NewDelivery, error) {
	d := queuedb.NewDelivery{
		HookID: hook.ID, OrganizationID: hook.OrganizationID, ID: e.ID, Event: e.Name, ContentType: shortType(of.contentType),
		Bytes: int64(len(of.body)), Status: domain.DeliveryAnswered,
	}
	if len(of.body) <= hookdb.DeliveryBodyMax {
		d.Body = of.body
	}
	if e.Answer != nil {
		return d, nil
	}
	rules := hook.rules.Apply
	if of.again {
		rules = hook.rules.ApplyUnfiltered
	}
	out := rules(e)
	switch {
	case !out.Passed:
		d.Status, d.Body = domain.DeliveryFiltered, nil
		return d, nil
	case out.Message == "" && e.Payload.Foreign:
		refuse(&d, apierr.InvalidRequest, "the body is not JSON, and the template gave no text for it")
		return d, nil
	case out.Message == "":
		refuse(&d, apierr.InvalidRequest, "the template gave no text for this delivery")
		return d, nil
	}
	who := hook.caller()
	switch err := h.WithinBudget(ctx, who.OrganizationID, hook.AgentID, who.KeyID, hook.Name); {
	case out.Key != "" && errors.Is(err, budgetdb.ErrRunsUsedUp): // it may join a run; if it is to begin one, that is refused
	case apierr.CodeOf(err) == apierr.BudgetExceeded:
		refuse(&d, apierr.BudgetExceeded, detailOf(err))
		return d, nil
	case err != nil:
		return d, err
	}
	run, err := h.deliveryRun(hook, e, out.Message, of.traceparent)
	if err != nil {
		return d, err
	}
	d.Status, d.Run = domain.DeliveryAccepted, &run
	if out.Key != "" {
		d.Status, d.Collect = domain.DeliveryCoalesced, collected(hook, out.Key)
	}
	return d, nil
}

// collected says what a delivery is collected by. A hook that runs another agent, or by another key, begins anew.
func collected(hook *liveHook, key string) *queuedb.Collect {
	by := hook.Coalesce
	return &queuedb.Collect{
		KeyHash: contract.Hash(hook.AgentID, hook.KeyID, key),
		Window:  time.Duration(by.WindowSeconds) * time.Second, MaxWait: time.Duration(by.MaxWaitSeconds) * time.Second,
	}
}

// deliveryRun is the run of a delivery, as run-automation would accept it from the hook's key. What the delivery brings comes
// along as data: the run has read what is not to be trusted.
func (h *Handler) deliveryRun(hook *liveHook, e *webhookin.Event, message, traceparent string) (queuedb.NewRun, error) {
	data, err := deliveryData(hook.Source, e)
	if err != nil {
		return queuedb.NewRun{}, fmt.Errorf("rendering delivery: %w", err)
	}
	s := dispatch.NewAutomation(hook.caller(), hook.AgentID, h.RetentionDefault)
	s.Message, s.Data, s.Traceparent = message, data, traceparent
	s.Key, s.KeyScope = e.ID, "hook:"+hook.ID
	s.TriggerType, s.AutomationID = triggerWebhook, hook.Name
	return s.NewRun(h.RunDeadline)
}

type deliveryHead struct {
	Source     domain.HookSource `json:"source"`
	Event      string            `json:"event"`
	DeliveryID string            `json:"deliveryId"`
}

// deliveryData is what the agent is given of a delivery beside the message.
func deliveryData(source domain.HookSource, e *webhookin.Event) (json.RawMessage, error) {
	data := struct {
		Webhook      deliveryHead    `json:"webhook"`
		Payload      json.RawMessage `json:"payload,omitempty"`
		PayloadBytes int             `json:"payloadBytes,omitempty"`
	}{Webhook: deliveryHead{source, e.Name, e.ID}}
	if payload, passed := e.Payload.JSON(payloadPassed); passed {
		data.Payload = payload
	} else {
		data.PayloadBytes = e.Payload.Bytes
	}
	return json.Marshal(data)
}

// refuse says of a delivery that nothing can be run for it.
func refuse(d *queuedb.NewDelivery, code apierr.Code, why string) {
	d.Status, d.Error = domain.DeliveryRefused, &domain.RunError{Code: string(code), Message: why}
}

func detailOf(err error) string {
	if coded, ok := errors.AsType[*apierr.Error](err); ok {
		return coded.Detail
	}
	return ""
}

// shortType is a Content-Type as it is kept.
func shortType(contentType string) string {
	if len(contentType) > contentMost || !httpx.IsVisible(strings.ReplaceAll(contentType, " ", "")) {
		return ""
	}
	return contentType
}

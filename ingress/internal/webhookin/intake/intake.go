package intake

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"parley/ingress/internal/dispatch"
	"parley/ingress/internal/ratelimit"
	"parley/ingress/internal/webhookin"
	"parley/shared/apierr"
	"parley/shared/contract"
	"parley/shared/domain"
	"parley/shared/store/agentdb"
	"parley/shared/store/budgetdb"
	"parley/shared/store/hookdb"
	"parley/shared/store/queuedb"
)

const (
	payloadPassed = 64 << 10 // maximum size of a payload that is passed to the agent, in bytes
	maxContent    = 200      // maximum length of a Content-Type that is stored, in bytes
	// Type of trigger that is stored with the runs.
	triggerWebhook = "webhook"
)

// Intake decides what happens to deliveries, logs them, and starts their runs. It is safe for
// concurrent use. All fields are required and not changed afterwards.
type Intake struct {
	Agents      *agentdb.Store
	Log         *hookdb.Store // log of deliveries
	Limits      *ratelimit.Limits
	Budgets     *dispatch.Submitter
	Dispatch    *dispatch.Dispatcher
	RunDeadline time.Duration
	Retention   time.Duration // how long runs are kept
}

// Delivered contains the data of a delivery that is stored in addition to its event. The body must
// not change until Take returns.
type Delivered struct {
	ContentType string
	// Raw body; it is stored up to hookdb.MaxDeliveryBody bytes.
	Body        []byte
	Traceparent string // W3C trace context of the request
	Again       bool   // whether a user redelivers the delivery, so that the filter does not apply
}

// Receipt is the outcome of a delivery, in the form of the response to its sender. RunID is nil if
// the delivery has started no run.
type Receipt struct {
	DeliveryID string `json:"deliveryId"`
	// Outcome, such as accepted, coalesced, filtered, refused or answered.
	Status domain.DeliveryStatus `json:"status"`
	RunID  *string               `json:"runId"`
	// Whether the source has sent this delivery before.
	Duplicate bool `json:"duplicate"`
	// Why the delivery was refused; nil: it was not.
	Error *domain.RunError `json:"error"`
}

// Take logs a verified delivery. It accepts a run if the rules of the hook require one. For a
// repeated delivery it returns the outcome of the first delivery. A delivery that cannot start a
// run is not an error, because senders disable hooks that respond with errors. A delivery over the
// rate limit that starts no run is not logged. Log entry and run are inserted in one transaction,
// so a repeated delivery is safe.
func (i *Intake) Take(ctx context.Context, hook *Hook, e *webhookin.Event, of Delivered) (Receipt, error) {
	// The request is charged before the decision, because the decision reads the payload and the
	// budget.
	limit, err := i.Limits.Check(ctx, hook.Caller())
	if err != nil {
		return Receipt{}, fmt.Errorf("checking limit: %w", err)
	}

	d, err := i.decide(ctx, hook, e, of)
	if err != nil {
		return Receipt{}, err
	}
	if !limit.Allowed {
		if err := i.delay(ctx, hook, &d, limit.RetryAfter); err != nil {
			return Receipt{}, err
		}
	}

	// Deliveries over the rate limit that start no run are not logged, so that a flood of them does
	// not fill the log.
	deliver := i.deliver
	if !limit.Allowed && d.Run == nil {
		deliver = i.withoutLog
	}
	accepted, err := deliver(ctx, d)
	if err != nil {
		return Receipt{}, err
	}

	was := accepted.Delivery

	// The charge is refunded for a repeated delivery, and for a delivery that joined the run of
	// another delivery.
	if limit.Allowed && !charged(&d, &accepted) {
		i.Limits.Refund(hook.Caller())
	}
	return Receipt{DeliveryID: was.ID, Status: was.Status, RunID: was.RunID, Duplicate: accepted.Existing, Error: was.Error}, nil
}

// delay sets a later time for the run of a delivery over the rate limit, because the sender might
// not repeat the delivery. If the delivery starts no run, it is not logged. If the agent is missing
// or does not accept automations, the delivery is refused. wait is the time until the limit allows
// the next request.
func (i *Intake) delay(ctx context.Context, hook *Hook, d *queuedb.NewDelivery, wait time.Duration) error {
	if d.Run == nil {
		return nil
	}

	// The agent is checked now, because a later refusal of the delayed run cannot be reported to
	// the sender.
	agent, err := i.Agents.Agent(ctx, hook.OrganizationID, hook.AgentID)
	switch {
	case apierr.CodeFor(err) == apierr.NotFound:
		refuse(d, apierr.NotFound, queuedb.HookWithoutAgent)
		d.Run = nil
	case err != nil:
		return err
	case !slices.Contains(agent.AllowedCallers, domain.CallerSystem):
		refuse(d, apierr.CallerNotAllowed, queuedb.CallerNotAllowedMessage(agent.ID, agent.Name, domain.CallerSystem))
		d.Run = nil
	default:
		d.Run.Hold = wait
	}
	return nil
}

// charged reports whether a delivery counts against the rate limit. Every logged delivery counts,
// except repeated deliveries and deliveries that joined another delivery's run.
func charged(d *queuedb.NewDelivery, accepted *queuedb.AcceptedDelivery) bool {
	joined := d.Run != nil && accepted.Delivery.RunID != nil && *accepted.Delivery.RunID != d.Run.ID
	return !joined && !accepted.Existing
}

// deliver logs a delivery. If the budget was used up after the decision to start a run, the
// delivery is refused. A refused delivery that was also over the rate limit is not logged.
func (i *Intake) deliver(ctx context.Context, d queuedb.NewDelivery) (queuedb.AcceptedDelivery, error) {
	accepted, err := i.deliverOnce(ctx, d)
	if apierr.CodeFor(err) != apierr.BudgetExceeded {
		return accepted, err
	}
	over := d.Run != nil && d.Run.Hold > 0
	refuse(&d, apierr.BudgetExceeded, detail(err))
	d.Run, d.Collect = nil, nil
	if over {
		return i.withoutLog(ctx, d)
	}
	return i.deliverOnce(ctx, d)
}

// withoutLog returns the outcome of a delivery without logging the delivery. For a repeated
// delivery, the outcome contains the run of the first delivery. withoutLog only reads the log.
func (i *Intake) withoutLog(ctx context.Context, d queuedb.NewDelivery) (queuedb.AcceptedDelivery, error) {
	seen, err := i.Log.Delivery(ctx, d.OrganizationID, d.HookID, d.ID)
	if err != nil && apierr.CodeFor(err) != apierr.NotFound {
		return queuedb.AcceptedDelivery{}, err
	}
	if seen.RunID != nil {
		return queuedb.AcceptedDelivery{Delivery: seen, Existing: true}, nil
	}
	return queuedb.AcceptedDelivery{Delivery: domain.Delivery{ID: d.ID, Status: d.Status, Error: d.Error}}, nil
}

// deliverOnce passes a delivery to the dispatcher. It returns the error of the dispatcher's
// transaction or of this delivery.
func (i *Intake) deliverOnce(ctx context.Context, d queuedb.NewDelivery) (queuedb.AcceptedDelivery, error) {
	accepted, err := i.Dispatch.Deliver(ctx, d)
	if err == nil {
		err = accepted.Err
	}
	return accepted, err
}

// decide returns the record of a delivery with its outcome: answered, filtered, refused, or
// accepted with a run. It inserts nothing. It reads the budget. It returns errors of the database
// and of the hook's settings.
func (i *Intake) decide(ctx context.Context, hook *Hook, e *webhookin.Event, of Delivered) (queuedb.NewDelivery, error) {
	// A ping keeps the initial status, answered. For any other delivery, the rules change the
	// status.
	d := queuedb.NewDelivery{
		HookID: hook.ID, OrganizationID: hook.OrganizationID, ID: e.ID, Event: e.Name, ContentType: shortType(of.ContentType),
		Bytes: int64(len(of.Body)), Status: domain.DeliveryAnswered,
	}
	if len(of.Body) <= hookdb.MaxDeliveryBody {
		d.Body = of.Body
	}
	if e.Answer != nil {
		return d, nil
	}

	// The filter does not apply to a delivery that a person redelivers.
	rules := hook.rules.Apply
	if of.Again {
		rules = hook.rules.ApplyUnfiltered
	}
	out := rules(e)
	switch {
	case !out.Passed:
		d.Status, d.Body = domain.DeliveryFiltered, nil
		return d, nil
	case out.Message == "" && e.Payload.Foreign:
		refuse(&d, apierr.InvalidRequest, "the body is not JSON, and the template produced no text for it")
		return d, nil
	case out.Message == "":
		refuse(&d, apierr.InvalidRequest, "the template produced no text for this delivery")
		return d, nil
	}

	// The budget is checked before the run is built. The statement that inserts the run checks it
	// again.
	who := hook.Caller()
	switch err := i.Budgets.WithinBudget(ctx, who.OrganizationID, hook.AgentID, who.KeyID, hook.Name); {
	case out.Key != "" && errors.Is(err, budgetdb.ErrRunsUsedUp): // the delivery may join a run; if it needs a new run, the insert refuses it
	case apierr.CodeFor(err) == apierr.BudgetExceeded:
		refuse(&d, apierr.BudgetExceeded, detail(err))
		return d, nil
	case err != nil:
		return d, err
	}

	run, err := i.deliveryRun(hook, e, out.Message, of.Traceparent)
	if err != nil {
		return d, err
	}
	d.Status, d.Run = domain.DeliveryAccepted, &run
	if out.Key != "" {
		d.Status, d.Collect = domain.DeliveryCoalesced, coalesceKey(hook, out.Key)
	}
	return d, nil
}

// coalesceKey returns the key under which deliveries are coalesced. The key differs after a change
// of the hook's agent or API key. Keys of different agents or API keys must not share a run,
// because their permissions differ.
func coalesceKey(hook *Hook, key string) *queuedb.Collect {
	by := hook.Coalesce
	return &queuedb.Collect{
		KeyHash: contract.Hash(hook.AgentID, hook.KeyID, key),
		Window:  time.Duration(by.WindowSeconds) * time.Second, MaxWait: time.Duration(by.MaxWaitSeconds) * time.Second,
	}
}

// deliveryRun returns the run that a delivery starts. It is like the run of an automation request
// with the hook's key. The payload is the run's data. The run is marked as having received
// untrusted text. The id of the delivery is the idempotency key, within the scope of the hook. The
// run has the deadline i.RunDeadline.
func (i *Intake) deliveryRun(hook *Hook, e *webhookin.Event, message, traceparent string) (queuedb.NewRun, error) {
	s := dispatch.NewAutomation(hook.Caller(), hook.AgentID, i.Retention)
	s.Message, s.Data, s.Traceparent = message, deliveryData(hook.Source, e), traceparent
	s.Key, s.KeyScope = e.ID, "hook:"+hook.ID
	s.TriggerType, s.AutomationID = triggerWebhook, hook.Name
	if hook.OutputSchema != nil {
		s.Options.Output = &domain.OutputContract{Schema: hook.OutputSchema}
	}
	return s.NewRun(i.RunDeadline)
}

// deliveryData returns the JSON that the agent receives in addition to the message. The member
// "webhook" has the source, the event and the id. The member "payload" has the payload. If the
// payload is too large, the member "payloadBytes" has its size instead. The payload is valid JSON
// and is copied, because a JSON encoder would parse it again. The limit of a payload is
// payloadPassed bytes.
func deliveryData(source domain.HookSource, e *webhookin.Event) json.RawMessage {
	payload, passed := e.Payload.JSON(payloadPassed)
	out := make([]byte, 0, len(payload)+len(e.Name)+len(e.ID)+128)
	text := func(name, value string) {
		out, _ = jsontext.AppendQuote(append(out, name...), value) // replaces invalid UTF-8 by U+FFFD
	}
	text(`{"webhook":{"source":`, string(source))
	text(`,"event":`, e.Name)
	text(`,"deliveryId":`, e.ID)
	switch {
	case passed:
		out = append(append(out, `},"payload":`...), payload...)
	case e.Payload.Bytes > 0:
		out = strconv.AppendInt(append(out, `},"payloadBytes":`...), int64(e.Payload.Bytes), 10)
	default:
		out = append(out, '}')
	}
	return append(out, '}')
}

// refuse records that a delivery is refused, and why. The sender sees both the code and the reason.
func refuse(d *queuedb.NewDelivery, code apierr.Code, why string) {
	d.Status, d.Error = domain.DeliveryRefused, &domain.RunError{Code: string(code), Message: why}
}

// detail returns the message of an API error whose details callers may see, and "" for any other
// error.
func detail(err error) string {
	if coded, ok := errors.AsType[*apierr.Error](err); ok {
		return coded.Detail
	}
	return ""
}

// shortType returns a Content-Type in the form that is stored. It returns "" if the type is too
// long or contains unusual characters.
func shortType(contentType string) string {
	foreign := func(r rune) bool { return r < ' ' || r > '~' }
	if len(contentType) > maxContent || strings.ContainsFunc(contentType, foreign) {
		return ""
	}
	return contentType
}

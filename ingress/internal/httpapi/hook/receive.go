package hook

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"

	"github.com/gin-gonic/gin"

	"parley/ingress/internal/auth"
	"parley/ingress/internal/httpapi/httpx"
	"parley/ingress/internal/httpapi/transfer"
	"parley/ingress/internal/webhookin"
	"parley/ingress/internal/webhookin/intake"
	"parley/shared/apierr"
	"parley/shared/domain"
	"parley/shared/id"
)

const (
	// ReceivePath is where deliveries are sent, followed by the hook's id.
	ReceivePath = "/api/hooks/receive/"
	// MaxDelivery is how many bytes a delivery may have.
	MaxDelivery = 25 << 20 // bytes, as much as GitHub sends
	// DeliveryBegins is how many bytes of a delivery are believed before they have come.
	DeliveryBegins = 4 << 10

	// Deliveries that are not signed as they should be, of one address to one hook: enough for a source that was set up wrongly, and
	// that it need not wait long once it is right; too few to guess at secrets.
	maxUnsigned    = 120
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
		Doing: "receiving too many large deliveries simultaneously", TooMany: "too many simultaneous large deliveries",
		Limit: transfer.LimitArrival,
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
	policy.Doing, policy.TooMany = "receiving too many deliveries simultaneously", "too many simultaneous deliveries"
	return &policy
}

// ReceiveDelivery is POST /api/hooks/receive/<id>. No credential counts here but the signature.
func (h *Handler) ReceiveDelivery(c *gin.Context) {
	hook, err := h.receiving(c)
	if err != nil {
		httpx.Fail(c, err)
		return
	}
	httpx.StateFor(c).Source = hook.Source
	client := h.Auth.DemoClient(c.Request)
	sender := hook.ID + " " + client
	verified := h.senders.know(sender) || slices.Contains(hook.Senders, client)
	if wait := h.Unsigned.Wait(sender); wait > 0 && !readsAnyway(c, hook, verified) {
		httpx.Fail(c, httpx.RateLimited(wait, "too many deliveries to this hook without a valid signature"))
		return
	}
	if err := webhookin.VerifyHeaders(hook.Source, hook.SignatureHeader, hook.Secrets, c.Request.Header, time.Now()); err != nil {
		h.Unsigned.Begin(sender)
		httpx.Fail(c, apierr.New(apierr.Unauthenticated, "%s", err))
		return
	}
	who := transfer.Owner{Organization: hook.OrganizationID, Credential: hook.ID, Client: client, Stranger: !verified}
	httpx.StateFor(c).Stranger = who.Stranger
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
	httpx.StateFor(c).Ident = auth.Identity{Caller: hook.Caller()} // for the log: now it is known whose request it is
	h.Auth.Used(hook.KeyID)
	taken, err := h.intake.Take(c.Request.Context(), hook, &event, intake.Delivered{
		ContentType: c.GetHeader("Content-Type"), Body: body, Traceparent: httpx.Traceparent(c),
	})
	if err != nil {
		httpx.Fail(c, err)
		return
	}
	httpx.StateFor(c).Delivery = taken.Status
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
func readsAnyway(c *gin.Context, hook *intake.Hook, verified bool) bool {
	length := c.Request.ContentLength
	return slices.Contains(sharedSources, hook.Source) && (verified || length >= 0 && length <= transfer.SmallBody)
}

// receiving is the hook that a request's path names.
func (h *Handler) receiving(c *gin.Context) (*intake.Hook, error) {
	hookID := c.Param("id")
	if !id.Valid(id.Hook, hookID) {
		return nil, apierr.New(apierr.NotFound, "no such resource")
	}
	return h.Hooks.Get(c.Request.Context(), hookID)
}

// readEvent checks a delivery's signature and reads it.
func readEvent(hook *intake.Hook, header http.Header, body []byte) (webhookin.Event, error) {
	err := webhookin.Verify(hook.Source, hook.SignatureHeader, hook.Secrets, header, body, time.Now())
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
	in, err := transfer.Receive(c, who, httpx.Permit{}, transfer.Step{All: &h.Small, Max: transfer.SmallBody},
		transfer.Step{All: &h.Medium, Max: transfer.MediumBody}, transfer.Step{All: &h.Large, Max: MaxDelivery})
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
		return nil, apierr.Wrap(apierr.InvalidRequest, fmt.Errorf("reading body: %w", err), "the body was not received completely")
	}
	return buf.Bytes(), nil
}

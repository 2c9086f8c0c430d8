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
	// ReceivePath is the path to which sources send deliveries, without the hook's id.
	ReceivePath = "/api/hooks/receive/"
	// MaxDelivery is the maximum size of a delivery in bytes.
	MaxDelivery = 25 << 20 // GitHub's maximum
	// DeliveryBegins is the maximum number of bytes that are allocated for a body before it
	// arrives, even if its Content-Length is larger.
	DeliveryBegins = 4 << 10

	// The limit on deliveries without a valid signature from one client address to one hook. It is
	// high, so that a source soon gets through after its configuration was corrected. It is low
	// enough that secrets cannot be guessed. A blocked sender is blocked only for this hook.
	maxUnsigned    = 120
	unsignedWindow = time.Minute

	// Limits on deliveries of more than transfer.MediumBody bytes at one ingress process. Such a
	// body is in memory as a whole. Senders from which no signed delivery has come yet (strangers)
	// have separate, lower limits, so that slots remain for verified senders.
	deliveriesPerHook = 2
	// DeliveriesPerOrganization is the maximum number of simultaneous large deliveries to an
	// organization's hooks at one ingress process.
	DeliveriesPerOrganization = 3
	// Maximum number of large deliveries to all hooks.
	deliveriesAtOnce = 8
	// Maximum numbers for senders that are not verified.
	strangersPerHook         = 1
	strangersPerOrganization = 2
	strangersPerAddress      = 2
	strangersAtOnce          = 4

	// Limits on deliveries of more than transfer.SmallBody and up to transfer.MediumBody bytes. The
	// URL of a hook may become known to many strangers, so one hook may take only half of the slots
	// for strangers.
	mediumPerHook          = 8
	mediumPerOrganization  = 16
	mediumAtOnce           = 64
	mediumStrangersPerHook = 16
	mediumStrangersAtOnce  = 32

	deliveryPace = 128 << 10 // minimum bytes per second; high, because senders are servers
)

// sharedSources lists the sources that send the deliveries of all their customers from the same
// addresses. Two of these sources stop repeating a delivery after it was rejected for a long time.
// The number of invalid deliveries from such an address says little about one customer.
var sharedSources = []domain.HookSource{domain.HookGitHub, domain.HookStripe, domain.HookSlack}

// LargeDeliveries is the policy for deliveries of more than transfer.MediumBody bytes.
// MediumDeliveries is the policy for smaller deliveries of more than transfer.SmallBody bytes, and
// SmallDeliveries is the policy for all others. A delivery waits for a slot for a short time before
// it is rejected.
var (
	LargeDeliveries = &transfer.Policy{
		Bounds: transfer.Bounds{
			PerCredential: deliveriesPerHook, PerOrganization: DeliveriesPerOrganization,
			PerAddress: deliveriesAtOnce / transfer.AddressShare, AtOnce: deliveriesAtOnce,
		},
		Unverified: transfer.Bounds{
			PerCredential: strangersPerHook, PerOrganization: strangersPerOrganization, PerAddress: strangersPerAddress, AtOnce: strangersAtOnce,
		}, Pace: deliveryPace, Patience: transfer.PaceTime, Queue: transfer.QueueTime, QueueOwn: true,
		Doing: "too many simultaneous large deliveries for this %s", TooMany: "too many simultaneous large deliveries",
		Limit: transfer.LimitArrival,
	}
	MediumDeliveries = &transfer.Policy{
		Bounds: transfer.Bounds{
			PerCredential: mediumPerHook, PerOrganization: mediumPerOrganization,
			PerAddress: mediumAtOnce / transfer.AddressShare, AtOnce: mediumAtOnce,
		},
		Unverified: transfer.Bounds{
			PerCredential: mediumStrangersPerHook, PerOrganization: mediumStrangersPerHook, PerAddress: strangersPerAddress,
			AtOnce: mediumStrangersAtOnce,
		}, Pace: deliveryPace, Patience: transfer.PaceTime, Queue: transfer.QueueTime, QueueOwn: true,
		Doing: LargeDeliveries.Doing, TooMany: LargeDeliveries.TooMany, Limit: transfer.LimitArrival,
	}
	SmallDeliveries = smallDeliveries()
)

// smallDeliveries returns a variant of the policy for small bodies, in which a delivery waits for a
// slot whichever limit is reached. It copies the policy, which other packages use too.
func smallDeliveries() *transfer.Policy {
	policy := *transfer.SmallBodies
	policy.QueueOwn = true
	policy.Doing, policy.TooMany = "too many simultaneous deliveries for this %s", "too many simultaneous deliveries"
	return &policy
}

// ReceiveDelivery handles POST /api/hooks/receive/<id>. The signature of the delivery authenticates
// the request. The response is 202 with a receipt, after the delivery and its run have been
// committed. A repeated delivery starts no second run.
func (h *Handler) ReceiveDelivery(c *gin.Context) error {
	hook, err := h.requestedHook(c)
	if err != nil {
		return err
	}
	httpx.StateFor(c).Source = hook.Source

	// A sender is a client address that sends deliveries to one hook.
	client := h.Auth.DemoClient(c.Request)
	sender := hook.ID + " " + client
	verified := h.senders.has(sender) || slices.Contains(hook.Senders, client)
	if wait := h.Unsigned.Wait(sender); wait > 0 && !isExempt(c, hook, verified) {
		return httpx.RateLimited(wait, "too many deliveries to this hook without a valid signature")
	}

	// First make the checks that do not need the body, so that strangers' bodies are not read in
	// vain.
	if err := webhookin.VerifyHeaders(hook.Source, hook.SignatureHeader, hook.Secrets, c.Request.Header, time.Now()); err != nil {
		h.Unsigned.Begin(sender)
		err = apierr.New(apierr.Unauthenticated, "%s", err)
		h.logRejected(c, hook, client, verified, err)
		return err
	}

	who := transfer.Owner{Organization: hook.OrganizationID, Credential: hook.ID, Client: client, Unverified: !verified}
	httpx.StateFor(c).Unverified = who.Unverified
	body, leave, err := h.deliveryBody(c, who)
	if err != nil {
		if who.Unverified { // count the delivery even if its body is rejected, aborted or incomplete
			h.Unsigned.Begin(sender)
		}
		return err
	}
	defer leave()
	if hook, err = h.Hooks.Get(c.Request.Context(), hook.ID); err != nil { // the hook may have been disabled while the body arrived
		return err
	}

	event, err := readEvent(hook, c.Request.Header, body)
	if err != nil {
		h.Unsigned.Begin(sender)
		h.logRejected(c, hook, client, verified, err)
		return err
	}

	// From here on, the delivery is authentic, and its sender may use more slots.
	h.verify(c.Request.Context(), hook, client)
	httpx.StateFor(c).Ident = auth.Identity{Caller: hook.Caller()} // for the log line: the caller is known only after the verification
	h.Auth.Used(hook.KeyID)
	result, err := h.intake.Take(c.Request.Context(), hook, &event, intake.Delivered{
		ContentType: c.GetHeader("Content-Type"), Body: body, Traceparent: httpx.Traceparent(c),
	})
	if err != nil {
		return err
	}
	return writeReceipt(c, hook, &event, result)
}

// writeReceipt responds to a delivery. If the source has sent a challenge, the response contains
// only the answer to the challenge. writeReceipt also sets the fields of the request's log line.
func writeReceipt(c *gin.Context, hook *intake.Hook, event *webhookin.Event, result intake.Receipt) error {
	httpx.StateFor(c).Delivery = result.Status
	if result.RunID != nil {
		httpx.SetLogIDs(c, hook.AgentID, *result.RunID, "")
	}
	if event.Answer != nil {
		return httpx.JSON(c, http.StatusOK, event.Answer)
	}
	return httpx.JSON(c, http.StatusAccepted, result)
}

// isExempt reports whether the service reads a delivery although its client address has sent too
// many deliveries without a valid signature to the hook. GitHub, Stripe and Slack send the
// deliveries of all their customers from the same addresses, so without this exception one customer
// could block the others. The exception applies to all deliveries from verified addresses, and to
// small deliveries from others. A body of unknown length is not small.
func isExempt(c *gin.Context, hook *intake.Hook, verified bool) bool {
	length := c.Request.ContentLength
	return slices.Contains(sharedSources, hook.Source) && (verified || length >= 0 && length <= transfer.SmallBody)
}

// requestedHook returns the hook that the request's path names. The error is not_found for an
// unknown or disabled hook. The hook may come from the cache.
func (h *Handler) requestedHook(c *gin.Context) (*intake.Hook, error) {
	hookID := c.Param("id")
	if !id.Valid(id.Hook, hookID) {
		return nil, apierr.Missing()
	}
	return h.Hooks.Get(c.Request.Context(), hookID)
}

// readEvent verifies a delivery's signature and decodes the delivery. The signature may be made
// with any of the hook's secrets. The error is unauthenticated, with the reason.
func readEvent(hook *intake.Hook, header http.Header, body []byte) (webhookin.Event, error) {
	err := webhookin.Verify(hook.Source, hook.SignatureHeader, hook.Secrets, header, body, time.Now())
	if err != nil {
		return webhookin.Event{}, apierr.New(apierr.Unauthenticated, "%s", err)
	}
	return webhookin.Read(hook.Source, hook.DeliveryIDHeader, header, body), nil
}

// deliveryBody reads the body of a delivery. The body is nil for a request without a body. The
// caller must call leave when it no longer needs the body. If err is not nil, leave need not be
// called.
func (h *Handler) deliveryBody(c *gin.Context, who transfer.Owner) (body []byte, leave func(), err error) {
	if c.Request.Body == nil {
		return nil, func() {}, nil
	}

	in, err := transfer.Receive(c, who, httpx.SessionCheck{}, transfer.Step{All: &h.Small, Max: transfer.SmallBody},
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

// readWhole reads a body to its end. It allocates at most DeliveryBegins bytes in advance, because
// the declared length may be false. Errors with a code, such as payload_too_large, are returned
// unchanged.
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

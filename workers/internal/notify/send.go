package notify

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"parley/shared/endpoint"
	"parley/shared/outbound"
	"parley/shared/store/notificationdb"
	"parley/shared/store/sealdb"
)

// maxAnswer is the maximum number of bytes of a response body that are read and discarded. The body
// is read so that the endpoint can send its response completely.
const maxAnswer = 64 << 10

// answer is the response of an endpoint.
type answer struct {
	status     int
	retryAfter time.Duration // delay that the endpoint demands; 0: none
}

// send sends the HTTP request for a notification. The organization can read the text of the
// returned error, unless the error is sealdb.ErrUnopened.
func (n *Notifier) send(ctx context.Context, c *notificationdb.ClaimedNotification) (answer, error) {
	// Check the URL again, because the rules for addresses may have changed since the endpoint was
	// created.
	if err := n.client.Check(c.URL); err != nil {
		return answer{}, errors.New(outbound.AsError(err).Message)
	}
	address, err := endpoint.Parse(c.URL)
	if err != nil {
		return answer{}, fmt.Errorf("The address %w.", err) //nolint:revive,staticcheck // shown to people as a sentence
	}

	body := c.Payload()
	ctx, cancel := context.WithTimeout(ctx, sendTime)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.URL, bytes.NewReader(body))
	if err != nil {
		return answer{}, errors.New("The URL is not valid.") //nolint:revive,staticcheck // shown to people as a sentence
	}

	req.Header.Set("Content-Type", "application/json")
	if err := n.sign(req.Header, c, body, time.Now()); errors.Is(err, sealdb.ErrUnopened) {
		return answer{}, err
	} else if err != nil {
		n.log.Error().Err(err).Str("endpoint_id", c.EndpointID).Msg("cannot use the secret of an endpoint")
		return answer{}, errors.New("The endpoint's secret cannot be read: rotate the secret.") //nolint:revive,staticcheck // shown to people
	}

	// Do not follow redirects, because their target may be an address that the organization has not
	// configured.
	client := n.client.HTTP(outbound.Options{Timeout: sendTime, MaxBytes: maxAnswer, Origin: address.Origin(), Fresh: true})
	resp, err := client.Do(req)
	if err != nil {
		return answer{}, errors.New(outbound.AsError(err).Message)
	}

	_, _ = io.Copy(io.Discard, resp.Body) // only the status of the response is used
	_ = resp.Body.Close()
	return answer{status: resp.StatusCode, retryAfter: retryAfter(resp.Header.Get("Retry-After"), time.Now())}, nil
}

// sign adds the headers of Standard Webhooks to a request. They contain a signature for each secret
// that can be decrypted. sign returns sealdb.ErrUnopened if no secret can be decrypted.
func (n *Notifier) sign(header http.Header, c *notificationdb.ClaimedNotification, body []byte, at time.Time) error {
	signatures := make([]string, 0, len(c.SealedSecrets))
	var unopened error
	for _, sealed := range c.SealedSecrets {
		secret, err := n.secrets.OpenText(sealdb.KindNotification, c.OrganizationID, c.EndpointID, sealed)
		// After a rotation, an endpoint has two valid secrets for a while. If one secret cannot be
		// decrypted, continue with the other secret.
		if err != nil {
			unopened = fmt.Errorf("opening secret: %w", err)
			continue
		}
		webhook, err := standardwebhooks.NewWebhook(secret)
		if err != nil {
			return errors.New("reading secret") // omit the cause, because it may contain the secret
		}
		signature, err := webhook.Sign(c.ID, at, body)
		if err != nil {
			return fmt.Errorf("signing: %w", err)
		}
		signatures = append(signatures, signature)
	}

	if len(signatures) == 0 && unopened != nil {
		return unopened
	}

	header.Set(standardwebhooks.HeaderWebhookID, c.ID)
	header.Set(standardwebhooks.HeaderWebhookTimestamp, strconv.FormatInt(at.Unix(), 10))
	header.Set(standardwebhooks.HeaderWebhookSignature, strings.Join(signatures, " "))
	return nil
}

// retryAfter returns the delay in a Retry-After header, which contains seconds or a date. It
// returns 0 if the header is missing or invalid.
func retryAfter(value string, now time.Time) time.Duration {
	if seconds, err := strconv.ParseInt(value, 10, 32); err == nil {
		return max(time.Duration(seconds)*time.Second, 0)
	}
	if at, err := http.ParseTime(value); err == nil {
		return max(at.Sub(now), 0)
	}
	return 0
}

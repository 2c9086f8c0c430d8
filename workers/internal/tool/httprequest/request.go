package httprequest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/rs/zerolog"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"parley/shared/contain"
	"parley/shared/contract"
	"parley/shared/domain"
	"parley/shared/endpoint"
	"parley/shared/outbound"
	"parley/workers/internal/tool"
	"parley/workers/internal/tool/redact"
)

// formType is the media type of an HTML form.
const formType = "application/x-www-form-urlencoded"

// prepared is a request that is ready to be sent, with the options of its connection. Its redactor
// removes the secrets that the request contains.
type prepared struct {
	request  *http.Request
	options  outbound.Options
	redactor *redact.Redactor
}

// prepare builds the request of a call. It sends nothing.
func (b *Backend) prepare(ctx context.Context, e domain.Endpoint, req tool.Request) (prepared, error) {
	template, err := endpoint.Parse(e.URL)
	if err != nil {
		return prepared{}, setUpWrongly(fmt.Errorf("reading address: %w", err))
	}

	// All secrets in the request are collected, so that they can be removed from the response.
	var secrets redact.Secrets
	secrets.Address(e.URL)
	header, err := b.headers(e, req, &secrets)
	if err != nil {
		return prepared{}, err
	}

	address, body, err := fill(e.Method, template, req.Call.Arguments, header)
	if err != nil {
		return prepared{}, &tool.Error{Message: "The arguments do not fit the endpoint: " + err.Error() + ".", NotSent: true, Err: err}
	}

	// The signature covers the final body, so it is computed after the arguments are inserted.
	if err := b.sign(e, req, body, header, &secrets); err != nil {
		return prepared{}, err
	}

	// The hook runs just before the first byte is sent. This is the last moment at which the
	// request can be stopped.
	if req.Sending != nil {
		ctx = outbound.WithSending(ctx, guarded(req.Sending))
	}

	request, err := http.NewRequestWithContext(ctx, e.Method, address, content(body))
	if err != nil {
		return prepared{}, setUpWrongly(errors.New("making request")) // the cause is omitted, because it quotes the address
	}
	request.Header = header

	// A reused connection may break while a request is being sent, so each request gets a new
	// connection.
	options := outbound.Options{Timeout: timeout, MaxBytes: maxBody, Origin: template.Origin(), Fresh: true}
	// Following a redirect sends a second request, so it is allowed only without side effects.
	if reads(e.Method) && sideEffect(e) == domain.SideEffectNone && req.Sending == nil {
		options.Redirects = redirects
	}
	return prepared{request: request, options: options, redactor: secrets.Redactor()}, nil
}

// guarded returns a function that calls the function sending and converts a panic to an error. The
// HTTP client calls the hook in a goroutine that does not recover panics.
func guarded(sending func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) (err error) {
		defer contain.Panic(&err, zerolog.Ctx(ctx), "panic while recording a request")
		return sending(ctx)
	}
}

// content returns a reader for a body. For nil, it returns http.NoBody.
func content(body []byte) io.Reader {
	if body == nil {
		return http.NoBody
	}
	return bytes.NewReader(body)
}

// setUpWrongly returns the error for a configuration from which no request can be made. The model
// sees a fixed message; the cause is only logged.
func setUpWrongly(cause error) error {
	return &tool.Error{Message: "The endpoint is not set up correctly.", NotSent: true, Err: cause}
}

// headers decrypts an endpoint's headers and adds their values to secrets. It also adds Accept,
// which the configuration may replace, and the idempotency key, which the configuration cannot
// replace.
func (b *Backend) headers(e domain.Endpoint, req tool.Request, secrets *redact.Secrets) (http.Header, error) {
	header := http.Header{"Accept": {"application/json, text/*;q=0.9, */*;q=0.5"}}
	for _, name := range slices.Sorted(maps.Keys(e.Headers)) {
		// Stored header values are encrypted for this organization and agent.
		value, err := b.open(e.Headers[name], req.OrganizationID, req.TargetID)
		if err != nil {
			return nil, tool.Unopened(fmt.Errorf("opening header: %w", err))
		}
		header.Set(name, value)
		secrets.Header(http.CanonicalHeaderKey(name), value)
	}
	if req.EffectKey != "" {
		header.Set("Idempotency-Key", req.EffectKey)
	}
	return header, nil
}

// sign adds the headers of Standard Webhooks. If a message is sent again, it keeps its id.
func (b *Backend) sign(e domain.Endpoint, req tool.Request, body []byte, header http.Header, secrets *redact.Secrets) error {
	if e.SigningSecret == "" {
		return nil
	}
	secret, err := b.open(e.SigningSecret, req.OrganizationID, req.TargetID)
	if err != nil {
		return tool.Unopened(fmt.Errorf("opening signing secret: %w", err))
	}

	if err := endpoint.CheckSecret(secret); err != nil {
		return setUpWrongly(fmt.Errorf("signing secret %w", err))
	}

	// Remove the secret with and without its prefix, because the receiver may send either form
	// back.
	secrets.Add(secret, strings.TrimPrefix(secret, "whsec_"))
	webhook, err := standardwebhooks.NewWebhook(secret)
	if err != nil {
		return setUpWrongly(errors.New("reading signing secret"))
	}

	// If a call has no entry in the effect ledger, the id of its message is the id that an entry
	// would have.
	id, at := req.EffectKey, time.Now()
	if id == "" {
		id = contract.EffectKey(req.RunID, req.Call.ID)
	}
	signature, err := webhook.Sign(id, at, body)
	if err != nil {
		return setUpWrongly(fmt.Errorf("signing: %w", err))
	}

	header.Set(standardwebhooks.HeaderWebhookID, id)
	header.Set(standardwebhooks.HeaderWebhookTimestamp, fmt.Sprint(at.Unix()))
	header.Set(standardwebhooks.HeaderWebhookSignature, signature)
	return nil
}

// fill returns the address and the body of a request. It inserts arguments into the address, and
// puts the remaining arguments into the query or the body.
func fill(method string, template *endpoint.Template, arguments json.RawMessage, header http.Header) (string, []byte, error) {
	args, err := readArguments(arguments)
	if err != nil {
		return "", nil, err
	}
	address, rest, err := template.Expand(args)
	if err != nil {
		return "", nil, err
	}

	// If the address already contains a query, the arguments are added to it.
	if inQuery(method) {
		query, err := encodeQuery(rest)
		if err != nil || query == "" {
			return address, nil, err
		}
		mark := "?"
		if strings.Contains(address, "?") {
			mark = "&"
		}
		return address + mark + query, nil, nil
	}

	// If the configured Content-Type is the type of a form, the body is a form instead of JSON.
	if kind, _, err := mime.ParseMediaType(header.Get("Content-Type")); err == nil && kind == formType {
		form, err := encodeQuery(rest)
		return address, []byte(form), err
	}

	if header.Get("Content-Type") == "" {
		header.Set("Content-Type", "application/json")
	}
	body, err := encode(rest)
	return address, body, err
}

// readArguments parses the arguments, which must be a JSON object, null or empty. Null and empty
// arguments count as an empty object.
func readArguments(raw json.RawMessage) (map[string]any, error) {
	args := map[string]any{}
	if len(raw) == 0 {
		return args, nil
	}
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber() // keep large numbers exact
	if err := decoder.Decode(&args); err != nil {
		return nil, errors.New("the arguments are not a JSON object")
	}
	if args == nil { // the arguments are null
		args = map[string]any{}
	}
	return args, nil
}

// encodeQuery encodes arguments as a query, sorted by name. For a list, the name is repeated.
func encodeQuery(args map[string]any) (string, error) {
	values := url.Values{}
	for name, value := range args {
		texts, err := endpoint.Scalars(value)
		if err != nil {
			return "", fmt.Errorf("the argument %q %w", name, err)
		}
		for _, text := range texts {
			values.Add(name, text)
		}
	}
	return values.Encode(), nil
}

// encode encodes JSON without escaping HTML characters. The output has no newline at the end.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, fmt.Errorf("encoding JSON: %w", err)
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

package webhookin

import (
	"encoding/base64"
	"encoding/hex"
	"errors"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"parley/shared/domain"
)

// vector is a delivery from the documentation of a source, with the secret that signed it.
type vector struct {
	source domain.HookSource
	secret string
	at     int64 // Unix time in seconds; 0 if the source does not sign the time
	header map[string]string
	body   string
}

// vectors are published examples: GitHub, "Validating webhook deliveries"; Slack, "Verifying
// requests from Slack"; Standard Webhooks, tests of its libraries. Stripe publishes no example with
// a secret, so its vector was created with openssl.
var vectors = map[string]vector{
	"github": {
		source: domain.HookGitHub, secret: "It's a Secret to Everybody", body: "Hello, World!",
		header: map[string]string{"X-Hub-Signature-256": "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"},
	},
	"slack": {
		source: domain.HookSlack, secret: "8f742231b10e8888abcd99yyyzzz85a5", at: 1531420618,
		header: map[string]string{
			"X-Slack-Request-Timestamp": "1531420618",
			"X-Slack-Signature":         "v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503",
		},
		body: "token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&channel_id=G8PSS9T3V&channel_name=foobar" +
			"&user_id=U2CERLKJA&user_name=roadrunner&command=%2Fwebhook-collect&text=&response_url=https%3A%2F%2Fhooks.slack.com" +
			"%2Fcommands%2FT1DC2JH3J%2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN&trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c",
	},
	"standard": {
		source: domain.HookStandard, secret: "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", at: 1614265330,
		header: map[string]string{
			"webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek", "webhook-timestamp": "1614265330",
			"webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
		},
		body: `{"test": 2432232314}`,
	},
	"stripe": {
		source: domain.HookStripe, secret: "whsec_test_secret", at: 1492774577,
		header: map[string]string{"Stripe-Signature": "t=1492774577,v1=174d5523cfbe4e1b5329c200cb77563aab3083d19aed8962b99a62deedaeffe7,v0=6ffbb59b2300aae63f272406069a9788598b792a944a07aba816edb039989a39"},
		body:   `{"id":"evt_1NG8Du2eZvKYlo2CUI79vXWy","object":"event","type":"payment_intent.succeeded"}`,
	},
}

func (v *vector) headers() http.Header {
	out := http.Header{}
	for name, value := range v.header {
		out.Set(name, value)
	}
	return out
}

func (v *vector) now() time.Time {
	if v.at == 0 {
		return time.Now()
	}
	return time.Unix(v.at, 0)
}

// verify verifies the vector with its headers, which the function change may modify first.
func (v *vector) verify(body string, now time.Time, change func(http.Header), secrets ...string) error {
	header := v.headers()
	if change != nil {
		change(header)
	}
	return Verify(v.source, "", secrets, header, []byte(body), now)
}

func TestPublishedVectors(t *testing.T) {
	t.Parallel()
	for name, v := range vectors {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			wantErr(t, "as published", v.verify(v.body, v.now(), nil, v.secret), nil)
			wantErr(t, "while two secrets hold", v.verify(v.body, v.now(), nil, "another-secret", v.secret), nil)
			wantErr(t, "with another secret", v.verify(v.body, v.now(), nil, "whsec_"+base64.StdEncoding.EncodeToString(make([]byte, 32))), ErrSignature)
			wantErr(t, "with no secret", v.verify(v.body, v.now(), nil), ErrSignature)
			for i := range len(v.body) {
				changed := []byte(v.body)
				changed[i] ^= 1
				wantErr(t, "byte "+strconv.Itoa(i)+" changed", v.verify(string(changed), v.now(), nil, v.secret), ErrSignature)
			}
			wantErr(t, "cut", v.verify(v.body[:len(v.body)-1], v.now(), nil, v.secret), ErrSignature)
			wantErr(t, "longer", v.verify(v.body+" ", v.now(), nil, v.secret), ErrSignature)
			v.headersChanged(t)
			v.atOtherTimes(t)
		})
	}
}

func (v *vector) headersChanged(t *testing.T) {
	t.Helper()
	for name, value := range v.header {
		wantErr(t, name+" missing", v.verify(v.body, v.now(), func(h http.Header) { h.Del(name) }, v.secret), ErrUnsigned)
		wantErr(t, name+" doubled", v.verify(v.body, v.now(), func(h http.Header) { h.Add(name, value) }, v.secret), ErrDoubled)
		if v.verify(v.body, v.now(), func(h http.Header) { h.Set(name, "0"+value) }, v.secret) == nil {
			t.Errorf("%s changed: accepted", name)
		}
	}
}

func (v *vector) atOtherTimes(t *testing.T) {
	t.Helper()
	if v.at == 0 {
		return
	}
	for off, want := range map[time.Duration]error{
		tolerance: nil, -tolerance: nil, tolerance + time.Second: ErrStale, -tolerance - time.Second: ErrStale, 1e6 * time.Hour: ErrStale,
	} {
		wantErr(t, off.String()+" later", v.verify(v.body, v.now().Add(off), nil, v.secret), want)
	}
	for _, at := range []string{"", "x", "1e9", "-1", "+1614265330", " 1614265330", "01614265330", "99999999999999999999"} {
		change := func(h http.Header) {
			for name, value := range v.header {
				h.Set(name, strings.ReplaceAll(value, strconv.FormatInt(v.at, 10), at))
			}
		}
		if v.verify(v.body, v.now(), change, v.secret) == nil {
			t.Errorf("the time %q was accepted", at)
		}
	}
}

func wantErr(t *testing.T, what string, got, want error) {
	t.Helper()
	if !errors.Is(got, want) {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

// A source may send several signatures. During a rotation, they are made with the old and the new
// secret. Some may use schemes that Parley does not support.
func TestSeveralSignatures(t *testing.T) {
	t.Parallel()
	v := vectors["stripe"]
	_, good, _ := strings.Cut(v.header["Stripe-Signature"], "v1=")
	good, _, _ = strings.Cut(good, ",")
	zeros := strings.Repeat("0", 64)
	for value, want := range map[string]error{
		"t=1492774577,v1=" + zeros + ",v1=" + good: nil,
		"v1=" + good + ",t=1492774577":             nil,
		"t=1492774577, v1=" + good:                 nil,
		"t=1492774577,v1=xx,v1=" + good:            nil,
		"t=1492774577,v1=" + zeros:                 ErrSignature,
		"t=1492774577,v0=" + good:                  ErrMalformed,
		"t=1492774577,t=1492774577,v1=" + good:     ErrDoubled,
		"v1=" + good:                               ErrMalformed,
		"t=1492774577":                             ErrMalformed,
		strings.Repeat("v1="+zeros+",", maxSignatures) + "t=1492774577,v1=" + good: ErrSignature,
	} {
		err := v.verify(v.body, v.now(), func(h http.Header) { h.Set("Stripe-Signature", value) }, v.secret)
		wantErr(t, value, err, want)
	}
	v = vectors["standard"]
	sum := "g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
	for value, want := range map[string]error{
		"v1,AAAA v1," + sum:       nil,
		"v1a,x v1," + sum + " v2": nil,
		"v1a," + sum:              ErrMalformed,
		"v2," + sum:               ErrMalformed,
		sum:                       ErrMalformed,
		"v1," + sum[:20]:          ErrSignature,
		"v1," + sum + ",v1":       ErrMalformed,
	} {
		err := v.verify(v.body, v.now(), func(h http.Header) { h.Set(HeaderSignature, value) }, v.secret)
		wantErr(t, value, err, want)
	}
}

// This package verifies deliveries that the library of Standard Webhooks has signed, and the
// library verifies deliveries that this package has signed.
func TestStandardLibrary(t *testing.T) {
	t.Parallel()
	secret, body, now := NewSecret(domain.HookStandard), []byte(`{"type":"user.created"}`), time.Now()
	library, err := standardwebhooks.NewWebhook(secret)
	if err != nil {
		t.Fatal(err)
	}
	signature, err := library.Sign("msg_1", now, body)
	if err != nil {
		t.Fatal(err)
	}
	header := http.Header{}
	header.Set(HeaderID, "msg_1")
	header.Set(HeaderTime, strconv.FormatInt(now.Unix(), 10))
	header.Set(HeaderSignature, signature)
	wantErr(t, "signed by the library", Verify(domain.HookStandard, "", []string{secret}, header, body, now), nil)

	// Svix sends the same values in headers of its own. If a delivery has both kinds of headers,
	// those of the standard are used.
	svix := http.Header{svixID: header[HeaderID], svixTime: header[HeaderTime], svixSignature: header[HeaderSignature]}
	wantErr(t, "signed by Svix", Verify(domain.HookStandard, "", []string{secret}, svix, body, now), nil)
	wantErr(t, "too old, by Svix", Verify(domain.HookStandard, "", []string{secret}, svix, body, now.Add(6*time.Minute)), ErrStale)
	if e := Read(domain.HookStandard, "", svix, body); e.ID != "msg_1" {
		t.Errorf("by Svix: %+v", e)
	}
	both := maps.Clone(svix)
	both.Set(HeaderID, "msg_2")
	both.Set(HeaderTime, header.Get(HeaderTime))
	both.Set(HeaderSignature, header.Get(HeaderSignature))
	wantErr(t, "another id", Verify(domain.HookStandard, "", []string{secret}, both, body, now), ErrSignature)
	svix.Add(svixSignature, svix.Get(svixSignature))
	wantErr(t, "doubled, by Svix", Verify(domain.HookStandard, "", []string{secret}, svix, body, now), ErrDoubled)

	sent, err := Signed(&domain.Hook{Source: domain.HookStandard}, secret, "msg_1", "", body, now)
	if err != nil || library.Verify(sent.Body, sent.Header) != nil {
		t.Errorf("signed here: %v, %v", err, library.Verify(sent.Body, sent.Header))
	}
}

func TestPlainSourcesVerify(t *testing.T) {
	t.Parallel()
	body, secret := []byte(`{"a":1}`), "a secret"
	sum := sign([]byte(secret), "", body)
	for value, want := range map[string]error{
		hex.EncodeToString(sum):                   nil,
		strings.ToUpper(hex.EncodeToString(sum)):  nil,
		"sha256=" + hex.EncodeToString(sum):       nil,
		base64.StdEncoding.EncodeToString(sum):    nil,
		base64.RawStdEncoding.EncodeToString(sum): nil,
		"":                                     ErrUnsigned,
		"sha1=" + hex.EncodeToString(sum[:20]): ErrMalformed,
		hex.EncodeToString(sum[:31]):           ErrMalformed,
		hex.EncodeToString(sum) + "," + hex.EncodeToString(sum): ErrMalformed,
		strings.Repeat("0", 64):                                 ErrSignature,
	} {
		err := Verify(domain.HookHMAC, "X-Sig", []string{secret}, http.Header{"X-Sig": {value}}, body, time.Now())
		wantErr(t, "hmac "+value, err, want)
	}
	for value, want := range map[string]error{
		secret: nil, "Bearer " + secret: nil, "": ErrNoToken, "a secret ": ErrToken, "a secre": ErrToken, "bearer " + secret: ErrToken,
	} {
		err := Verify(domain.HookToken, "X-Sig", []string{"other", secret}, http.Header{"X-Sig": {value}}, body, time.Now())
		wantErr(t, "token "+value, err, want)
	}
	wantErr(t, "an unknown source", Verify("ftp", "X-Sig", []string{secret}, http.Header{"X-Sig": {secret}}, body, time.Now()), ErrUnsigned)
}

// A test delivery is signed exactly as the source would sign it.
func TestSignedVerifies(t *testing.T) {
	t.Parallel()
	for _, source := range domain.HookSources {
		secret := NewSecret(source)
		if err := CheckSecret(source, secret); err != nil {
			t.Errorf("%s: a secret that Parley generated: %s", source, err)
		}
		h := &domain.Hook{Source: source, SignatureHeader: "X-Sig", DeliveryIDHeader: "X-Id"}
		sent, err := Signed(h, secret, "d1", "issues", []byte(`{"id":"d1","event_id":"d1"}`), time.Now())
		if err != nil {
			t.Fatal(err)
		}
		wantErr(t, string(source), Verify(source, "X-Sig", []string{secret}, sent.Header, sent.Body, time.Now()), nil)
		if e := Read(source, "X-Id", sent.Header, sent.Body); e.ID != "d1" {
			t.Errorf("%s: id %s", source, e.ID)
		}
	}
	for secret, source := range map[string]domain.HookSource{
		"short": domain.HookStandard, "whsec_x": domain.HookStandard, "\ttab": domain.HookToken, "a\nb": domain.HookHMAC,
		"whsec_" + base64.StdEncoding.EncodeToString(make([]byte, 23)): domain.HookStandard,
	} {
		if CheckSecret(source, secret) == nil {
			t.Errorf("%q was accepted for %s", secret, source)
		}
	}
}

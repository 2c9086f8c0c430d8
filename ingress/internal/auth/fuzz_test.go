package auth

import (
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"parley/shared/apierr"
	"parley/shared/secrets"
)

// seedHeaders are header values that clients or attackers may send.
var seedHeaders = []string{
	"", " ", ",", "x", "tenant_demo", "TENANT_DEMO", "tenant_demo,", "Bearer x", "bearer  x", "Bearer", "Bearer ", "Basic eDp5", "Bearer ak_1", "ps_" + strings.Repeat("a", 32),
	"ak_01h455vb4pex5vsknk084sn02q_0123456789abcdefghijklmnopqrstuv000000", "parley_session=x", "parley_session=x; parley_session=y", `parley_session="x"`,
	"parley_session=", "parley_session= 0", `parley_session="0 "`, "; ;=;", "org_01h455vb4pex5vsknk084sn02q", "\x00", "\u00e9", "a\tb",
}

func headersFor(key, authorization, cookie, organization, tenant string) *http.Request {
	req := &http.Request{Header: http.Header{}}
	for name, value := range map[string]string{
		headerKey: key, headerAuthorization: authorization, "Cookie": cookie, headerOrganization: organization, headerTenant: tenant,
	} {
		if value != "-" { // "-" means that the header is absent
			req.Header[name] = strings.Split(value, "\n") // "\n" separates the values of a repeated header
		}
	}
	return req
}

// FuzzRead checks that read returns an error with a code, or at most one credential, which consists
// of visible characters.
func FuzzRead(f *testing.F) {
	for _, value := range seedHeaders {
		f.Add(value, "-", "-", "-", "-")
		f.Add("-", value, "-", "-", "-")
		f.Add("-", "-", value, "-", "-")
		f.Add("x", "-", value, value, "tenant_demo")
		f.Add("-", "-", "-", "-", value)
		f.Add(value, value, value, value, value)
		f.Add(value+"\n"+value, "-", "-", "-", "-")
	}
	f.Fuzz(func(t *testing.T, key, authorization, cookie, organization, tenant string) {
		req := headersFor(key, authorization, cookie, organization, tenant)
		SaysDemo(req)
		p, err := read(req, true)
		if err != nil {
			if code := apierr.CodeFor(err); code != apierr.InvalidRequest && code != apierr.ConflictingCredentials && code != apierr.Unauthenticated {
				t.Errorf("refused as %q: %v", code, err)
			}
			return
		}
		if (p.via == ViaNothing) != (p.token == "") {
			t.Errorf("%+v", p)
		}
		if key != "-" && authorization != "-" {
			t.Error("two credentials passed")
		}
		if strings.ContainsAny(p.token+p.org, " \n\r\t\x00") || p.via != ViaCookie && strings.Contains(p.token, ",") || strings.Contains(p.org, ",") {
			t.Errorf("%+v", p)
		}
		if p.demo != (tenant == "tenant_demo") {
			t.Errorf("tenant %q is demo: %v", tenant, p.demo)
		}
	})
}

// FuzzClientAddr checks that ClientAddr never returns an address that the client has forged.
func FuzzClientAddr(f *testing.F) {
	for _, value := range []string{
		"", "198.51.100.1", "198.51.100.1, 10.0.0.2", "10.0.0.1,10.0.0.2,", "unknown", "[2001:db8::1]:443", "2001:db8::1", "198.51.100.1:80", "fe80::1%eth0", "::ffff:10.0.0.9",
		"1.2.3.4\n5.6.7.8", ",,,", "[", "]", "[]", "010.0.0.1", "1.2.3.4.5", "198.51.100.1, unknown, 10.0.0.2",
	} {
		f.Add("10.0.0.1:1", value)
		f.Add("203.0.113.5:1", value)
		f.Add("@", value)
	}
	proxies := Proxies{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::/8")}
	f.Fuzz(func(t *testing.T, remote, forwarded string) {
		req := &http.Request{RemoteAddr: remote, Header: http.Header{"X-Forwarded-For": strings.Split(forwarded, "\n")}}
		got := proxies.ClientAddr(req)
		from := peer(req)
		if !proxies.Trust(from) && got != from {
			t.Errorf("%q with the header %q got the address %s", remote, forwarded, got)
		}
		if got.IsValid() && got.Is4In6() || got.Zone() != "" {
			t.Errorf("%s is not in its canonical form", got)
		}
		// A trusted proxy appends the client's address. The entries to the left of this address
		// must have no effect.
		if !proxies.Trust(got) && got != from {
			req.Header["X-Forwarded-For"] = append([]string{"192.0.2.77"}, req.Header["X-Forwarded-For"]...)
			if again := proxies.ClientAddr(req); again != got {
				t.Errorf("%q changed the address to %s, want %s", forwarded, again, got)
			}
		}
		if name := ClientName(got); name == "" {
			t.Errorf("%s has no name", got)
		}
		proxies.Secure(req)
	})
}

// FuzzCredentials checks that no text is recognized as credentials of two types, and that
// credentials consist of visible characters.
func FuzzCredentials(f *testing.F) {
	key := secrets.NewAPIKey()
	for _, text := range append(seedHeaders, key.Key, secrets.NewSessionToken(), secrets.NewLinkToken(), key.Key+"0", key.Key[1:], strings.ToUpper(key.Key)) {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if keyID, ok := secrets.APIKeyID(text); ok && (!secrets.IsAPIKey(text) || !strings.Contains(text, strings.TrimPrefix(keyID, "key_")) || !isVisible(text)) {
			t.Errorf("%q is the key %q", text, keyID)
		}
		if (secrets.IsSessionToken(text) || secrets.IsLinkToken(text)) && (!isVisible(text) || len(text) != 35) {
			t.Errorf("%q is a token", text)
		}
		if secrets.IsSessionToken(text) && (secrets.IsLinkToken(text) || secrets.IsAPIKey(text)) {
			t.Errorf("%q has two types", text)
		}
	})
}

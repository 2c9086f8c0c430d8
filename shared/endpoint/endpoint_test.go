package endpoint_test

import (
	"encoding/base64"
	"encoding/json"
	"maps"
	"net/url"
	"slices"
	"strings"
	"testing"

	"parley/shared/endpoint"
)

func TestParse(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ raw, origin, path, query string }{
		{"https://api.example.com", "https://api.example.com:443", "", ""},
		{"HTTP://API.example.com/", "http://api.example.com:80", "", ""},
		{"https://api.example.com:8443?a={x}", "https://api.example.com:8443", "", "x"},
		{"http://[::1]:8080/v1/{id}/items/{item.id}.json?q={q}&p=1&r={q}-{to-day}", "http://[::1]:8080", "id item.id", "q to-day"},
		{"http://[2606:4700::1111]/{a}{b}/{a}?a={a}", "http://[2606:4700::1111]:80", "a b", "a"},
		{"https://bücher.example/%7Bno%7D?x=%20+&&y", "https://bücher.example:443", "", ""},
	} {
		tpl, err := endpoint.Parse(c.raw)
		if err != nil {
			t.Errorf("%s: %v", c.raw, err)
			continue
		}
		path, query := tpl.Variables()
		if tpl.Origin() != c.origin || strings.Join(path, " ") != c.path || strings.Join(query, " ") != c.query {
			t.Errorf("%s: got %s, %v, %v", c.raw, tpl.Origin(), path, query)
		}
	}
	for _, raw := range []string{
		"", "example.com", "/path", "ftp://example.com", "file:///x", "https://", "https:///x", "https://?x", "https://:443/", "https://{host}/", "https://a.{d}/", "https://a:{port}/", "{scheme}://a/",
		"https://u:p@a/", "https://a@b/", "https://a/#x", "https://a/{x}#y", "https://a b/", "https://a/b c", "https://a/\r\nX: y", "https://a\\b/", "https://a/\\..", "https://a:0/", "https://a:65536/", "https://a:/", "https://a:b/", "https://[::1/",
		"https://a/{", "https://a/}", "https://a/{}", "https://a/{a b}", "https://a/{{a}}", "https://a/{a", "https://a/a}", "https://a/{ä}", "https://a/{" + strings.Repeat("x", 65) + "}", "https://a?{a}=1", "https://a?{a}", "https://a?a{b}=1", "https://a?a=}",
		"https://a/..", "https://a/b/../c", "https://a/.", "https://a/%2e%2E/c", "https://a/.%2e", "https://a/%zz", "https://a?x=%2", "https://a/\xff", "https://a/" + strings.Repeat("x", 2048),
	} {
		if _, err := endpoint.Parse(raw); err == nil {
			t.Errorf("%q was taken", raw)
		}
	}
}

func TestExpand(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ raw, args, want, rest string }{
		{"https://a.b", `{"x":1}`, "https://a.b/", "x"},
		{"https://a.b/v1/", `{}`, "https://a.b/v1/", ""},
		{"https://a.b/u/{id}", `{"id":"7","note":"n"}`, "https://a.b/u/7", "note"},
		{"https://a.b/u/{id}", `{"id":12345678901234567890}`, "https://a.b/u/12345678901234567890", ""},
		{"https://a.b/u/{id}/on/{x}", `{"id":1.50,"x":true}`, "https://a.b/u/1.50/on/true", ""},
		{"https://a.b/u/{id}", `{"id":"a?c#d&e=f;g%h é\u0020@:x"}`, "https://a.b/u/a%3Fc%23d&e=f%3Bg%25h%20%C3%A9%20@:x", ""},
		{"https://a.b/u/{id}", `{"id":"100%"}`, "https://a.b/u/100%25", ""},
		{"https://a.b/u/{id}", `{"id":"50%25%zz"}`, "https://a.b/u/50%2525%25zz", ""},
		{"https://a.b/p/a%2F{id}%5Cb", `{"id":"x"}`, "https://a.b/p/a%2Fx%5Cb", ""},
		{"https://a.b/p/a%252F{id}", `{"id":"x"}`, "https://a.b/p/a%252Fx", ""},
		{"https://a.b/s?q={q}", `{"q":"a/b\\..%2f../"}`, "https://a.b/s?q=a%2Fb%5C..%252f..%2F", ""},
		{"https://a.b/{f}.{e}", `{"f":".","e":"txt"}`, "https://a.b/..txt", ""},
		{"https://a.b/s?q={q}&n={n}&fix=1", `{"q":"a&b=c #+é"}`, "https://a.b/s?q=a%26b%3Dc+%23%2B%C3%A9&fix=1", ""},
		{"https://a.b/s?q={q}&n={n}", `{"q":null,"n":0}`, "https://a.b/s?n=0", ""},
		{"https://a.b/s?q={q}", `{}`, "https://a.b/s", ""},
		{"https://a.b/s?q={q}", `{"q":""}`, "https://a.b/s?q=", ""},
		{"https://a.b/s?t={t}&x", `{"t":["a","b c",3]}`, "https://a.b/s?t=a&t=b+c&t=3&x", ""},
		{"https://a.b/s?t={t}", `{"t":[]}`, "https://a.b/s", ""},
		{"https://a.b/s?f=x:{a},y:{b}", `{"a":1,"b":2}`, "https://a.b/s?f=x:1,y:2", ""},
		{"https://a.b/s?f=x:{a},y:{b}", `{"a":1}`, "https://a.b/s", ""},
		{"https://a.b/{a}?x={a}", `{"a":"z"}`, "https://a.b/z?x=z", ""},
		{"https://a.b/s?q={q}", `{"q":"\r\nHost: x"}`, "https://a.b/s?q=%0D%0AHost%3A+x", ""},
	} {
		got, rest, err := expand(t, c.raw, c.args)
		if err != nil || got != c.want || strings.Join(slices.Sorted(maps.Keys(rest)), " ") != c.rest {
			t.Errorf("%s %s: got %s, %v, %v", c.raw, c.args, got, rest, err)
		}
	}
}

func TestExpandRefuses(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ raw, args string }{
		{"https://a.b/{id}", `{}`},
		{"https://a.b/{id}", `{"id":null}`},
		{"https://a.b/{id}", `{"id":""}`},
		{"https://a.b/{id}", `{"id":"."}`},
		{"https://a.b/{id}", `{"id":".."}`},
		{"https://a.b/{id}", `{"id":"%2e%2e"}`},
		{"https://a.b/{id}", `{"id":"%252e%252e"}`},
		{"https://a.b/{id}", `{"id":"..;x"}`},
		{"https://a.b/{id}", `{"id":"x/../../admin"}`},
		{"https://a.b/{id}", `{"id":"..\\admin"}`},
		{"https://a.b/{id}", `{"id":"..%2fadmin"}`},
		{"https://a.b/{id}", `{"id":"1/delete"}`}, // a server may route the path as /1/delete
		{"https://a.b/{id}", `{"id":"//evil.test"}`},
		{"https://a.b/{id}", `{"id":"1\\delete"}`},
		{"https://a.b/{id}", `{"id":"1%2fdelete"}`},
		{"https://a.b/{id}", `{"id":"1%5Cdelete"}`},
		{"https://a.b/{id}", `{"id":"1%252Fdelete"}`},
		{"https://a.b/{id}", `{"id":"1%255cdelete"}`},
		{"https://a.b/{id}", `{"id":"1%2fdelete%zz"}`},
		{"https://a.b/{id}", `{"id":"%zz%252fdelete%"}`},
		{"https://a.b/{id}", `{"id":"%2e%2e/%zz"}`},
		{"https://a.b/{id}", `{"id":"%2e%2e;%zz"}`},
		{"https://a.b/{id}", `{"id":"%252e.;%zz"}`},
		{"https://a.b/{x}2fdelete", `{"x":"1%"}`}, // the fixed text and the value together form an escape
		{"https://a.b/{x}{y}", `{"x":"1%","y":"2fdelete"}`},
		{"https://a.b/{x}{y}", `{"x":"1%25","y":"5Cdelete"}`},
		{"https://a.b/a%2F{x}", `{"x":".."}`},
		{"https://a.b/a%252F{x}", `{"x":".."}`},
		{"https://a.b/{id}", `{"id":"a\u0000b"}`},
		{"https://a.b/{id}", `{"id":"a\r\nb"}`},
		{"https://a.b/{id}", `{"id":["a"]}`},
		{"https://a.b/{id}", `{"id":{"a":1}}`},
		{"https://a.b/{x}{y}", `{"x":".","y":"."}`},
		{"https://a.b/.{x}", `{"x":"."}`},
		{"https://a.b/%2e{x}", `{"x":"."}`},
		{"https://a.b/?q={q}", `{"q":{"a":1}}`},
		{"https://a.b/?q={q}", `{"q":[["a"]]}`},
		{"https://a.b/?q=a{q}", `{"q":["a"]}`},
	} {
		if got, _, err := expand(t, c.raw, c.args); err == nil || !strings.Contains(err.Error(), "argument") {
			t.Errorf("%s %s: got %s, %v", c.raw, c.args, got, err)
		}
	}
}

func expand(t *testing.T, raw, arguments string) (string, map[string]any, error) {
	t.Helper()
	tpl, err := endpoint.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	decoder := json.NewDecoder(strings.NewReader(arguments))
	decoder.UseNumber()
	var args map[string]any
	if err := decoder.Decode(&args); err != nil {
		t.Fatal(err)
	}
	before := len(args)
	got, rest, err := tpl.Expand(args)
	if len(args) != before {
		t.Error("the caller's arguments were changed")
	}
	return got, rest, err
}

func TestCheckSecret(t *testing.T) {
	t.Parallel()
	secret := func(n int) string { return "whsec_" + base64.StdEncoding.EncodeToString(make([]byte, n)) }
	for _, good := range []string{secret(24), secret(32), secret(64), "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"} {
		if err := endpoint.CheckSecret(good); err != nil {
			t.Errorf("%s: %v", good, err)
		}
	}
	for _, bad := range []string{"", "whsec_", secret(23), secret(65), secret(32)[6:], secret(32) + "\n", secret(32) + " ", "whsec_" + strings.Repeat("-_", 20), "WHSEC_" + secret(32)[6:], secret(32)[:20] + "\n" + secret(32)[20:]} {
		if err := endpoint.CheckSecret(bad); err == nil {
			t.Errorf("%q was taken", bad)
		} else if len(bad) > 12 && strings.Contains(err.Error(), bad[6:]) {
			t.Errorf("the error shows %q", bad)
		}
	}
}

// lenient decodes the escapes that may lead to a slash or backslash, even next to invalid escapes.
var lenient = strings.NewReplacer("%2f", "/", "%2F", "/", "%5c", "\\", "%5C", "\\", "%25", "%", "%32", "2", "%35", "5", "%46", "F", "%66", "f", "%43", "C", "%63", "c")

// For all arguments, the URL stays at the template's origin and below the template's fixed
// segments. It contains no raw special characters.
func FuzzExpand(f *testing.F) {
	f.Add("../admin", "x&y=z")
	f.Add("@evil.test/", "\r\n")
	f.Add("%2e%2e%2f", "#")
	f.Add("\\..\\", "é☃")
	f.Add("1%2fdelete", "a/b")
	f.Add("1%25%32fdelete%zz", "")
	f.Fuzz(func(t *testing.T, segment, value string) {
		tpl, err := endpoint.Parse("https://api.example.com/v1/{a}/end?fixed=1&q={b}")
		if err != nil {
			t.Fatal(err)
		}
		address, _, err := tpl.Expand(map[string]any{"a": segment, "b": value})
		if err != nil {
			return
		}
		u, err := url.Parse(address)
		if err != nil || u.Host != "api.example.com" || u.Scheme != "https" || u.User != nil || u.Fragment != "" {
			t.Fatalf("%q became %s: %v", segment, address, err)
		}
		parts := strings.Split(u.EscapedPath(), "/")
		if len(parts) != 4 || parts[1] != "v1" || parts[3] != "end" || u.JoinPath().EscapedPath() != u.EscapedPath() {
			t.Errorf("%q became %s", segment, address)
		}
		for plain, n := parts[2], 0; n < 3; n++ { // plain is the path that a server routes if it unescapes the path first, up to three times
			if plain = lenient.Replace(plain); strings.ContainsAny(plain, "/\\") {
				t.Errorf("%q became %s, and then %s", segment, address, plain)
			}
		}
		if q := u.Query(); len(q) != 2 || q.Get("fixed") != "1" || q.Get("q") != value {
			t.Errorf("%q became %s", value, address)
		}
	})
}

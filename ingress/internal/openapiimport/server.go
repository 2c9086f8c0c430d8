package openapiimport

import (
	"net/url"
	"strings"
)

// base is the server URL in the import request. A nil *base stands for a request without a server
// URL.
type base struct{ at *url.URL }

// maxURL is the maximum length of the server's URL, in bytes.
const maxURL = 2048

// baseFor parses the server URL of the import request. It must be an absolute HTTP URL without
// credentials, query and fragment. All errors are of type *Invalid.
func baseFor(text string) (*base, error) {
	if text == "" {
		return nil, nil //nolint:nilnil // the request names no server
	}
	u, err := url.Parse(text)
	switch {
	case len(text) > maxURL:
		return nil, invalid("serverUrl", CodeTooLong, "must have at most %d characters", maxURL)
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "":
		return nil, invalid("serverUrl", CodeInvalid, "must be a URL that begins with https:// or http://")
	case u.User != nil || u.RawQuery != "" || u.Fragment != "" || u.ForceQuery:
		return nil, invalid("serverUrl", CodeInvalid, "must not contain a user name, query or fragment")
	}
	return &base{u}, nil
}

// errNoServer is the error for a document whose server URL is relative. The caller must provide a
// server URL, because a relative URL cannot be called. The error ends the whole import, since all
// operations usually have the same server.
var errNoServer = invalid("serverUrl", CodeRequired, "is required, because the document names no host")

// server returns the URL to which an operation's path is appended. It has no slash at its end. A
// server URL in the request replaces an absolute URL of the document. If the document's URL is
// relative, it is resolved against the URL in the request. The error is a skip for a URL that
// cannot be called over HTTP.
func (d *document) server(o operation, b *base) (string, error) {
	u, err := d.ownServer(o)
	switch {
	case err != nil:
		return "", err

	// The document's URL is absolute or has no path, so it contributes nothing.
	case b != nil && (u.IsAbs() || u.Host != "" || strings.Trim(u.Path, "/") == ""):
		u = b.at
	// The document's server URL is relative, so it is resolved against the given server URL.
	case b != nil:
		u = b.at.JoinPath("/").ResolveReference(u)
	case !u.IsAbs() && u.Host == "":
		return "", errNoServer
	}

	if u.Scheme != "http" && u.Scheme != "https" || u.RawQuery != "" || u.Fragment != "" {
		return "", skip("The server URL of the operation is not an HTTP URL, or contains a query.")
	}
	return strings.TrimRight(u.String(), "/"), nil
}

// ownServer returns the first server of the operation, or else of its path, or else of the
// document. The URL may be relative. Without servers, it is "/", as OpenAPI defines. Further
// servers are ignored; they are alternatives of the same API.
func (d *document) ownServer(o operation) (*url.URL, error) {
	address := "/"
	for _, holder := range []map[string]any{o.body, o.item, d.root} {
		servers := listFor(holder, "servers")
		if len(servers) == 0 {
			continue
		}
		first, err := d.object(servers[0])
		if err != nil {
			return nil, err
		}
		address = fill(first)
		break
	}

	u, err := url.Parse(address)
	if err != nil {
		return nil, skip("The server URL of the operation is not valid.")
	}
	return u, nil
}

// fill replaces the variables in a server URL with their default values. A variable without a
// default is replaced by the empty text.
func fill(server map[string]any) string {
	address := stringValue(server, "url")
	variables, _ := server["variables"].(map[string]any)
	var pairs []string
	for name, v := range variables {
		variable, _ := v.(map[string]any)
		pairs = append(pairs, "{"+name+"}", stringValue(variable, "default"))
	}
	return strings.NewReplacer(pairs...).Replace(address)
}

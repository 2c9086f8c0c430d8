package auth

import (
	"net/http"
	"strings"

	"parley/shared/apierr"
	"parley/shared/secrets"
)

// These constants name the header in which browsers send the credentials of a WebSocket request,
// because pages cannot set most other headers of such a request. The first has net/http's canonical
// form, the second the usual spelling.
const (
	headerProtocol = "Sec-Websocket-Protocol"
	nameProtocol   = "Sec-WebSocket-Protocol"
)

// Prefixes of the subprotocols in which clients of OpenAI's Realtime API send a credential and an
// organization.
const (
	protocolKey          = "openai-insecure-api-key."
	protocolOrganization = "openai-organization."
)

// Protocols returns the subprotocols that a WebSocket request offers. Its errors have a code; see
// package apierr. The names keep their order. Without the header the result is nil.
func Protocols(req *http.Request) ([]string, error) {
	var out []string
	for _, line := range req.Header[headerProtocol] {
		for name := range strings.SplitSeq(line, ",") {
			name = strings.Trim(name, " \t")
			if name == "" || !isVisible(name) {
				return nil, apierr.Invalid(nameProtocol, "invalid_value", "must be a list of names, separated by commas")
			}
			out = append(out, name)
		}
	}
	return out, nil
}

// readVoice extracts the credential of a WebSocket request. It ignores cookies, because a browser
// sends the service's cookies with WebSocket requests from the pages of any website. The
// organization and the credential may also be in subprotocols. Two credentials are an error, even
// if they are equal.
func readVoice(req *http.Request) (presented, error) {
	p, err := read(req, false)
	if err != nil {
		return p, err
	}

	offered, err := Protocols(req)
	if err != nil {
		return p, err
	}

	// A page cannot set the headers of a WebSocket request, but it can choose the subprotocols.
	for _, name := range offered {
		if token, ok := strings.CutPrefix(name, protocolKey); ok {
			switch {
			case token == "":
				return p, apierr.Invalid(nameProtocol, "required", "%s must be followed by a credential", protocolKey)
			case p.token != "":
				return p, apierr.New(apierr.ConflictingCredentials, "send one credential only: in a header, or once as a subprotocol")
			}
			p.via, p.token = bearing(token), token
		}
		if org, ok := strings.CutPrefix(name, protocolOrganization); ok {
			if org == "" || p.org != "" && p.org != org {
				return p, apierr.Invalid(nameProtocol, "invalid_value", "%s must be followed by an organization id",
					protocolOrganization)
			}
			p.org = org
		}
	}
	return p, nil
}

// VoiceAgain checks the caller's credential again during a voice connection. A client secret that
// has expired in the meantime is still accepted, provided that the credential with which it was
// created is valid.
func (r *Resolver) VoiceAgain(req *http.Request) (Identity, error) { return r.voice(req, true) }

// voice identifies the caller of a voice connection: a user, a key, or the holder of a client
// secret that a user or a key has created. The argument before is set if the connection exists
// already. Widget tokens and the demo are rejected.
func (r *Resolver) voice(req *http.Request, before bool) (Identity, error) {
	p, err := readVoice(req)
	switch {
	case err != nil:
		return Identity{}, err
	case p.via == ViaWidget:
		return r.visitor(req, p, NeedUser)
	case p.via == ViaNothing && p.demo:
		return Identity{}, DemoRestricted()
	case p.via == ViaNothing:
		return Identity{}, unauthenticated("a credential is missing: send an API key or a client secret of POST /v1/realtime/client_secrets; " +
			"this endpoint does not accept cookies")
	case p.via == ViaBearer && secrets.IsClientSecret(p.token):
		return r.secret(req.Context(), p, before)
	}
	return r.known(req.Context(), p, NeedUser)
}

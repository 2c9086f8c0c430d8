package auth

import (
	"net/http"
	"strings"

	"parley/shared/apierr"
	"parley/shared/secrets"
)

// Where browsers, which cannot set headers of WebSockets, say who they are: as net/http keeps it, and as others write it.
const (
	headerProtocol = "Sec-Websocket-Protocol"
	nameProtocol   = "Sec-WebSocket-Protocol"
)

// What clients of OpenAI's Realtime API offer as subprotocols besides "realtime".
const (
	protocolKey          = "openai-insecure-api-key."
	protocolOrganization = "openai-organization."
)

// Protocols gives the subprotocols that a request for a WebSocket offers. Its errors are coded.
func Protocols(req *http.Request) ([]string, error) {
	var out []string
	for _, line := range req.Header[headerProtocol] {
		for name := range strings.SplitSeq(line, ",") {
			name = strings.Trim(name, " \t")
			if name == "" || !isVisible(name) {
				return nil, apierr.Invalid(nameProtocol, "invalid_value", "the header must be names with commas between")
			}
			out = append(out, name)
		}
	}
	return out, nil
}

// readVoice takes the credential off a request for a WebSocket. A cookie is none: a browser sends it for any page, and asks none of
// them whether it may.
func readVoice(req *http.Request) (presented, error) {
	p, err := read(req, false)
	if err != nil {
		return p, err
	}
	offered, err := Protocols(req)
	if err != nil {
		return p, err
	}
	for _, name := range offered {
		if token, ok := strings.CutPrefix(name, protocolKey); ok {
			switch {
			case token == "":
				return p, apierr.Invalid(nameProtocol, "required", "%s must be followed by a credential", protocolKey)
			case p.token != "":
				return p, apierr.New(apierr.ConflictingCredentials, "send one credential: in a header, or once as a subprotocol")
			}
			p.via, p.token = bearing(token), token
		}
		if org, ok := strings.CutPrefix(name, protocolOrganization); ok {
			if org == "" || p.org != "" && p.org != org {
				return p, apierr.Invalid(nameProtocol, "invalid_value", "%s must be followed by the organization that is meant",
					protocolOrganization)
			}
			p.org = org
		}
	}
	return p, nil
}

// VoiceAgain resolves a request once more that has become a voice connection. A client secret is then good beyond its time, for as
// long as what it was made with is.
func (r *Resolver) VoiceAgain(req *http.Request) (Identity, error) { return r.voice(req, true) }

// voice tells who asks for a voice connection: a person or a key, who may have sent a client secret ahead.
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
		return Identity{}, unauthenticated("send an API key, or a client secret, which POST /v1/realtime/client_secrets makes: " +
			"a cookie is no credential here")
	case p.via == ViaBearer && secrets.IsClientSecret(p.token):
		return r.secret(req.Context(), p, before)
	}
	return r.known(req.Context(), p, NeedUser)
}

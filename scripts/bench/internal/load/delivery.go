package load

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
)

// delivered is the body of a GitHub delivery, copied from GitHub's documentation and shortened to
// about 1 KiB.
const delivered = `{"action":"opened","issue":{"url":"https://api.github.com/repos/octo-org/hello/issues/1","id":444500041,"number":1,` +
	`"title":"The lamp does not shine","user":{"login":"octocat","id":583231,"type":"User","site_admin":false},"labels":[{"id":1362934389,` +
	`"name":"bug","color":"d73a4a","default":true}],"state":"open","locked":false,"assignee":null,"assignees":[],"milestone":null,"comments":0,` +
	`"created_at":"2026-11-21T15:20:18Z","updated_at":"2026-11-21T15:20:18Z","closed_at":null,"author_association":"OWNER",` +
	`"body":"I pressed the switch twice, and nothing came of it. It shone yesterday."},"repository":{"id":186853002,"name":"hello",` +
	`"full_name":"octo-org/hello","private":false,"owner":{"login":"octo-org","id":6811672,"type":"Organization","site_admin":false},` +
	`"html_url":"https://github.com/octo-org/hello","fork":false,"default_branch":"main","topics":[],"visibility":"public"},` +
	`"sender":{"login":"octocat","id":583231,"type":"User","site_admin":false}}`

// Delivery returns a load of webhook deliveries. Each delivery has its own id and is signed as
// GitHub signs it.
func Delivery(address, path, secret string) Spec {
	mac := hmac.New(sha256.New, []byte(secret))
	_, _ = mac.Write([]byte(delivered)) // a hash never fails
	return Spec{
		Address: address, Path: path, Body: delivered, Expect: `"status":"accepted"`,
		Headers: map[string]string{
			"X-GitHub-Event": "issues", "X-GitHub-Delivery": KeyMark, "X-Hub-Signature-256": "sha256=" + hex.EncodeToString(mac.Sum(nil)),
		},
	}
}

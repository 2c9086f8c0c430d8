package browser

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"parley/shared/testkit"
)

// callingPage is a page that calls the service with the TypeScript SDK and shows the resulting
// error.
const callingPage = `<!doctype html><html lang="en"><head><title>Shop</title><link rel="icon" href="data:,"></head><body><main><h1>Shop</h1><p></p></main>
<script type="module">
import { Parley } from "/sdk.js";
const shown = await new Parley({ baseUrl: %q, apiKey: "ak_x" }).agents.list().catch((error) => error.name + ": " + error.message);
document.querySelector("p").textContent = shown;
</script></body></html>`

// TestSDKOnAnotherOrigin calls the service with the TypeScript SDK from a page on another origin.
// The browser hides the response from the page without giving a reason. The SDK's error explains
// why.
func TestSDKOnAnotherOrigin(t *testing.T) {
	t.Parallel()
	s := withTestEnv(t)
	root, dir := testkit.Root(t), t.TempDir()
	build := exec.CommandContext(t.Context(), filepath.Join(root, "bin", "esbuild"), filepath.Join(root, "sdk", "typescript", "src", "index.ts"),
		"--bundle", "--format=esm", "--target=es2022", "--outfile="+filepath.Join(dir, "sdk.js"))
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/sdk.js" {
			http.ServeFile(w, r, filepath.Join(dir, "sdk.js"))
			return
		}
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = fmt.Fprintf(w, callingPage, s.url)
	}))
	t.Cleanup(server.Close)

	p := open(t).withoutAddress()
	p.watch.talksTo(strings.TrimPrefix(server.URL, "http://"))
	p.watch.expectForbiddenOrigin()
	p.visitURL(server.URL)
	p.sees("CrossOriginError: a page of " + server.URL + " cannot read the response")
	p.sees("the browser blocked the response (CORS)")
	p.sees("call Parley from your own server")
}

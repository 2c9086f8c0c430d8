package browser

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/chromedp/chromedp"

	"parley/scripts/internal/quickstart"
	"parley/shared/testkit"
	"parley/shared/testkit/modelstub"
	"parley/shared/testkit/openaistub"
)

// testEnv is the environment shared by all tests of the package.
type testEnv struct {
	mu      sync.Mutex
	up      bool
	dir     string
	parley  *quickstart.Service
	model   *openaistub.Server // the model "openai/stub"
	outside *outside
	servers []*httptest.Server

	url, host string
	log       *os.File        // the browser's output
	browser   context.Context //nolint:containedctx // chromedp's handle of a browser is a context
	close     context.CancelFunc
	addresses atomic.Int64
}

var theEnv testEnv

// withTestEnv returns the running service and browser. The first call starts them.
func withTestEnv(t *testing.T) *testEnv {
	t.Helper()
	chromium, err := browserProgram()
	if err != nil {
		t.Skipf("NOT TESTED: pages in a browser: %v (scripts/setup test installs one)", err)
	}

	s := &theEnv
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.up {
		return s
	}

	program := testkit.BuildBinary(t, "deploy/standalone/cmd/parley")
	if s.dir == "" {
		if s.dir, err = os.MkdirTemp("", "parley-browser-"); err != nil { //nolint:usetesting // shared by all tests
			t.Fatal(err)
		}
	}

	s.startOutside()
	if err := s.startParley(t, program); err != nil {
		t.Fatal(err)
	}
	if err := s.startBrowser(chromium); err != nil {
		t.Fatal(err)
	}

	s.up = true
	return s
}

// browserProgram returns the path of Chromium. The headless shell is Chromium without the browser's
// own user interface. It shows the same pages with two thirds of the processor time.
func browserProgram() (path string, err error) {
	for _, name := range []string{"chromium-headless-shell", "chromium"} {
		if path, err = exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("looking for a browser: %w", err)
}

func (s *testEnv) startOutside() {
	s.model, s.outside = openaistub.New(), &outside{desk: desk()}
	model, others := httptest.NewServer(locked(modelstub.Slow(s.model, pause))), httptest.NewServer(s.outside)
	s.servers = append(s.servers, model, others)
	s.outside.url = others.URL
	s.outside.host = strings.TrimPrefix(others.URL, "http://")
}

// startParley starts `parley up` with settings for the tests, and returns when the service is
// ready.
func (s *testEnv) startParley(t *testing.T, program string) (err error) {
	t.Helper()
	s.parley, err = quickstart.Start(t, program, s.dir,
		"OPENAI_BASE_URL="+s.servers[0].URL+"/v1", "OPENAI_API_KEY=stub", "DEFAULT_MODEL=offline",
		fmt.Sprintf("ANTHROPIC_BASE_URL=http://127.0.0.1:%d", testkit.FreePort(t)), "ANTHROPIC_API_KEY=stub", // unreachable
		"TRANSCRIPTION_MODEL=openai/ear", "AUDIO_BASE_URL="+s.outside.url+"/v1", "AUDIO_API_KEY=ear", "SPEECH_MODEL=offline/espeak-ng",
		"SEARXNG_URL="+s.outside.url, "OUTBOUND_ALLOW="+s.outside.host,
		"TRUSTED_PROXIES=127.0.0.0/8", "LIMIT_USER=3000", // each page sends its own client address in a proxy's header
		"LIMIT_WIDGET_ADDRESS=600", // pages on other origins send no client address, so their visitors share one address
		"SIGNUPS_PER_ADDRESS=0", "MODEL_PRICES="+slowModel+"=100/200", "PRICES_CURRENCY=EUR")
	if err != nil {
		return err
	}

	s.url = s.parley.BaseURL
	s.host = strings.TrimPrefix(s.parley.BaseURL, "http://")
	return nil
}

func (s *testEnv) startBrowser(program string) error {
	log, err := os.Create(filepath.Join(s.dir, "browser"))
	if err != nil {
		return fmt.Errorf("creating the browser's log: %w", err)
	}
	s.log = log
	s.browser, s.close, err = launch(program, filepath.Join(s.dir, "profile"), chromedp.CombinedOutput(log))
	return err
}

// launch starts a browser with a new profile.
func launch(program, profile string, more ...chromedp.ExecAllocatorOption) (browser context.Context, end context.CancelFunc, err error) {
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(program), chromedp.Flag("headless", "new"), chromedp.Flag("no-sandbox", os.Geteuid() == 0),
		chromedp.UserDataDir(profile), chromedp.Flag("hide-scrollbars", true),
		chromedp.Flag("lang", "en-US"), chromedp.Flag("disable-gpu", true), chromedp.Flag("mute-audio", true),
		chromedp.Flag("no-proxy-server", true), // ignores the environment's proxy, because the service is on loopback
		// Chromium implements parts of its own user interface as pages. Each of these pages runs in
		// a process that needs more resources than the page under test, so these parts are
		// disabled.
		chromedp.Flag("disable-features", "Translate,BlinkGenPropertyTrees,InitialWebUI,WebUIReloadButton,PreloadTopChromeWebUI,"+
			"SpareRendererForSitePerProcess,MediaRouter,OptimizationHints"),
		chromedp.Flag("disable-component-update", true),
		chromedp.Flag("disable-dev-shm-usage", !roomInMemory()))

	ctx, free := chromedp.NewExecAllocator(context.Background(), append(options, more...)...)
	ctx, stop := chromedp.NewContext(ctx)
	end = func() { stop(); free() }
	if err := chromedp.Do(ctx); err != nil {
		end()
		return nil, func() {}, fmt.Errorf("starting %s: %w", program, err)
	}
	return ctx, end, nil
}

// roomInMemory reports whether the machine has enough shared memory for a browser. Containers often
// have too little.
func roomInMemory() bool {
	var shared syscall.Statfs_t
	err := syscall.Statfs("/dev/shm", &shared)
	return err == nil && shared.Bavail*uint64(max(0, shared.Bsize)) > 1<<30
}

// address returns a client address that no other page uses. Rate limits apply per address, so tests
// with separate addresses do not exhaust each other's limits.
func (s *testEnv) address() string {
	n := s.addresses.Add(1)
	return fmt.Sprintf("198.51.%d.%d", 100+n/250, 1+n%250)
}

// end stops the browser, the service and the external servers. If a test of the package failed, end
// prints the service's warnings and errors.
func (s *testEnv) end(failed bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.close != nil {
		s.close()
	}

	err := s.parley.Stop()
	for _, server := range s.servers {
		server.CloseClientConnections()
		server.Close()
	}

	if s.dir == "" {
		return err
	}
	if s.parley != nil && (failed || err != nil) {
		fmt.Fprintf(os.Stderr, "parley complained:\n%s", s.parley.Complaints())
		if raw, err := os.ReadFile(filepath.Join(s.dir, "browser")); err == nil && os.Getenv("BROWSER_LOG") != "" {
			_ = os.WriteFile(os.Getenv("BROWSER_LOG"), raw, 0o600)
		}
	}
	return errors.Join(err, os.RemoveAll(s.dir))
}

// Package browser tests the dashboard, the API reference and the widget in Debian's Chromium. A
// real `parley up` with a private PostgreSQL and an embedded NATS serves these pages.
//
//	test ──DevTools──▶ Chromium ──HTTP──▶ parley up ──▶ outside: a slow model, a searchable web,
//	  └──────────────── HTTP, to prepare data ──▶              a till that counts its requests
//
// Parley, Chromium and the external services are started once for the package. Each test opens
// pages in a new browser context with a separate client address, and mostly with a separate
// account, so tests run in parallel.
//
// Tests find elements as users do: by role and name, by label, or by visible text, including open
// shadow trees (find_test.go). The code in watch_test.go fails a test for every fault on its page:
// console errors, exceptions, violations of the content security policy, requests to other hosts,
// and error responses. A failed test prints the page's URL and text, and saves a screenshot in the
// directory that BROWSER_ARTIFACTS names, if it is set.
//
// If BROWSER_SHOTS names a directory, the tests save pictures of every page there: 360 and 1280
// pixels wide, in light and dark mode.
package browser

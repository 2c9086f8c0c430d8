// Package browser tests what people see, in Debian's Chromium: the dashboard, the reference and the widget, as they are served by a
// real `parley up` with a private PostgreSQL and an embedded NATS.
//
//	test ──DevTools──▶ Chromium ──HTTP──▶ parley up ──▶ outside: a model that answers slowly, a web that is
//	  └──────────────── HTTP, to prepare things ──▶            searched, a till that counts what it is sent
//
// Parley, Chromium and what is outside are started once for the package. Each test opens pages in a browser context of its own, with a
// client address of its own, and mostly with an account of its own, so that tests run side by side.
//
// Tests find things as people do: by role and name, by label, by the words that stand there, in open shadow trees too (find_test.go).
// What a page does wrong fails its test without being asked for: console errors, exceptions, violations of the content security policy,
// requests to anybody else, answers that refuse or fail (watch_test.go). A test that fails names the address, shows what stood on
// the page and keeps a picture of it, under BROWSER_ARTIFACTS if that names a directory.
//
// BROWSER_SHOTS names a directory for pictures of every page, at 360 and 1280 pixels, light and dark, for people to look at.
package browser

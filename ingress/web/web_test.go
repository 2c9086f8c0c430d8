package web

import (
	"bytes"
	"regexp"
	"strings"
	"testing"
)

// inline is what the pages' content security policy would block.
var inline = regexp.MustCompile(`(?i)<script|<style|\sstyle=|\son[a-z]+=|javascript:|\ssrc=|href="(https?:)?//`)

func TestPages(t *testing.T) {
	t.Parallel()
	evil := `<script>alert(1)</script>`
	rendered := map[string][]byte{}
	add := func(name string, page []byte, err error) {
		if err != nil {
			t.Fatal(err)
		}
		rendered[name] = page
	}
	page, err := RenderLogin(Login{Problem: evil, Email: evil + `"`, OpenID: true})
	add("login", page, err)
	for name, who := range map[string]Accept{"invited": {}, "invited account": {Known: true}, "invited and signed in": {Known: true, SignedIn: true}} {
		who.Token, who.Organization, who.Email, who.As, who.Problem = "pi_x", evil, evil, "a member", evil
		page, err = RenderAccept(who)
		add(name, page, err)
	}
	page, err = RenderReset(Reset{Token: "pr_x", Email: evil, Problem: evil})
	add("reset", page, err)
	page, err = RenderNotice(Notice{Words: evil})
	add("notice", page, err)
	dashboard, err := RenderDashboard(Dashboard{
		Name: evil, Email: "ada@example.com", Organization: "Ada's", OrganizationID: "org_x", Role: "owner", BaseURL: "http://127.0.0.1:8080",
	})
	if err != nil {
		t.Fatal(err)
	}
	rendered["dashboard"] = dashboard
	for name, page := range rendered {
		if found := inline.Find(page); found != nil {
			t.Errorf("%s holds %q", name, found)
		}
		for _, part := range []string{"<!doctype html>", `lang="en"`, "viewport", "<main", "</html>"} {
			if !bytes.Contains(page, []byte(part)) {
				t.Errorf("%s lacks %s", name, part)
			}
		}
	}
	for _, part := range []string{"org_x", "ada@example.com", "http://127.0.0.1:8080/api/internal/run-automation", `"x-api-key: $PARLEY_API_KEY"`} {
		if !strings.Contains(strings.ReplaceAll(string(dashboard), "&#34;", `"`), part) {
			t.Errorf("dashboard lacks %s", part)
		}
	}
}

func TestStyleSheet(t *testing.T) {
	t.Parallel()
	css, err := StyleSheet()
	if err != nil || !bytes.Contains(css, []byte("prefers-color-scheme: dark")) || bytes.Contains(css, []byte("url(")) {
		t.Errorf("style sheet of %d bytes, %v", len(css), err)
	}
}

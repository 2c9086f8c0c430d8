package filelink_test

import (
	"errors"
	"net/url"
	"strings"
	"testing"
	"time"

	"parley/ingress/internal/filelink"
	"parley/shared/id"
	"parley/shared/secrets"
)

func TestLinks(t *testing.T) {
	t.Parallel()
	signer, err := secrets.NewSigner(strings.Repeat("ab", 32))
	if err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	links := filelink.New(signer, "https://parley.example.com", 24*time.Hour, func() time.Time { return now })
	org, file := id.New(id.Organization), id.New(id.File)

	link, err := url.Parse(links.URL(org, file))
	if err != nil || link.Host != "parley.example.com" || link.Path != filelink.Path {
		t.Fatalf("link %s, %v", link, err)
	}
	token := link.Query().Get(filelink.Token)
	if o, f, err := links.Read(token); o != org || f != file || err != nil {
		t.Errorf("Read = %s, %s, %v; want %s, %s", o, f, err, org, file)
	}

	now = now.Add(24 * time.Hour)
	if _, _, err := links.Read(token); err != nil {
		t.Errorf("after the life of a link: %v", err)
	}
	now = now.Add(time.Hour)
	if _, _, err := links.Read(token); !errors.Is(err, filelink.ErrInvalid) {
		t.Errorf("an expired link: %v", err)
	}

	now = now.Add(-25 * time.Hour)
	off := filelink.New(signer, "", 0, func() time.Time { return now })
	if _, _, err := off.Read(token); !errors.Is(err, filelink.ErrInvalid) || off.URL(org, file) != "" {
		t.Errorf("without links: %v, URL %q", err, off.URL(org, file))
	}
	claims, _, _ := strings.Cut(token, ".")
	for name, forged := range map[string]string{
		"empty":               "",
		"without a signature": claims,
		"changed":             token[:len(token)-2] + "AA",
		"another signer's":    other(t).URL(org, file)[len("/files?token="):],
		"another purpose":     signer.Sign([]byte(org+" "+file+" 9999999999"), nil),
		"not a file":          signer.Sign([]byte(org+" "+id.New(id.Run)+" 9999999999"), []byte("parley file link v1")),
		"claims of a tool":    signer.Sign([]byte(`{"org":"`+org+`"}`), []byte("parley file link v1")),
	} {
		if _, _, err := links.Read(forged); !errors.Is(err, filelink.ErrInvalid) {
			t.Errorf("%s: %v, want ErrInvalid", name, err)
		}
	}
}

func other(t *testing.T) *filelink.Links {
	t.Helper()
	signer, err := secrets.NewSigner(strings.Repeat("cd", 32))
	if err != nil {
		t.Fatal(err)
	}
	return filelink.New(signer, "", time.Hour, time.Now)
}

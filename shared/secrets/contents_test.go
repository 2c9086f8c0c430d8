package secrets

import (
	"bytes"
	"encoding/hex"
	"errors"
	"testing"
)

func TestBytesAreOpenedOnlyAtTheirLocation(t *testing.T) {
	t.Parallel()
	b := newBox(t, hex.EncodeToString(testKey('a')))
	for _, plain := range [][]byte{nil, []byte("x"), bytes.Repeat([]byte("content "), 16<<10)} {
		sealed, again := b.SealBytes(plain, []byte("here")), b.SealBytes(plain, []byte("here"))
		if len(sealed) != len(plain)+len(b.SealBytes(nil, nil)) {
			t.Errorf("%d bytes became %d: not as many more as of none", len(plain), len(sealed))
		}
		if bytes.Equal(sealed, again) || len(plain) > 1 && bytes.Contains(sealed, plain[:8]) {
			t.Error("what is sealed shows something of what it was")
		}
		got, err := b.OpenBytes(sealed, []byte("here"))
		if err != nil || !bytes.Equal(got, plain) {
			t.Errorf("opened %d bytes, %v; want %d", len(got), err, len(plain))
		}
		if _, err := b.OpenBytes(sealed, []byte("there")); !errors.Is(err, ErrSealed) {
			t.Errorf("opened elsewhere: %v", err)
		}
		for n := range min(len(sealed), 64) {
			changed := bytes.Clone(sealed)
			changed[n] ^= 1
			if _, err := b.OpenBytes(changed, []byte("here")); !errors.Is(err, ErrSealed) {
				t.Errorf("opened with byte %d changed: %v", n, err)
			}
			if _, err := b.OpenBytes(sealed[:n], []byte("here")); !errors.Is(err, ErrSealed) {
				t.Errorf("opened the first %d bytes: %v", n, err)
			}
		}
	}
}

func TestBytesKeysAreRotated(t *testing.T) {
	t.Parallel()
	old, fresh := hex.EncodeToString(testKey('a')), hex.EncodeToString(testKey('b'))
	sealed := newBox(t, old).SealBytes([]byte("content"), nil)
	rotated := newBox(t, fresh+","+old)
	if got, err := rotated.OpenBytes(sealed, nil); err != nil || string(got) != "content" {
		t.Errorf("opened %q, %v", got, err)
	}
	if _, err := newBox(t, old).OpenBytes(rotated.SealBytes([]byte("content"), nil), nil); !errors.Is(err, ErrSealed) {
		t.Errorf("the first key does not seal: %v", err)
	}
}

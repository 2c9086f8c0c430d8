package machine

import "testing"

func TestAllowFiles(t *testing.T) {
	t.Parallel()
	if err := AllowFiles(64); err != nil {
		t.Error(err)
	}
	if n, err := FilesAllowed(); err != nil || n < 64 {
		t.Errorf("%d files are allowed, %v", n, err)
	}
	if AllowFiles(1<<60) == nil {
		t.Error("more files than any system allows")
	}
}

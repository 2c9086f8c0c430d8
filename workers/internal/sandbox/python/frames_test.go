package python

import (
	"bytes"
	"encoding/binary"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"
	"unicode/utf8"

	"parley/workers/internal/sandbox"
)

func frame(kind byte, payload string) string {
	return string(binary.BigEndian.AppendUint32([]byte{kind}, uint32(len(payload)))) + payload
}

// FuzzFrames reads arbitrary bytes as frames from a sandbox. The reader must not panic, and the
// results must be within the limits.
func FuzzFrames(f *testing.F) {
	f.Add(frame('Y', "") + frame('B', "") + frame('O', "hi\n") + frame('E', "\xff") + frame('X', "0 3 100 2 0 \n42") +
		frame('F', "a.txt") + frame('D', "content") + frame('L', "link") + frame('G', "given") + frame('Z', ""))
	f.Add(frame('B', "") + frame('O', strings.Repeat("ä", 60)) + frame('W', "5000") + frame('X', "-9 5000 1 0 0 cpu\n") + frame('Z', ""))
	f.Add(frame('X', "1 0 0 0 9 files\nno placeZ"))
	f.Add(frame('B', "") + frame('X', "0 0 0 0 0 \n") + frame('F', "a") + frame('D', strings.Repeat("x", 60)) + frame('D', strings.Repeat("y", 60)) +
		frame('F', "a") + frame('F', "../b") + frame('D', "x") + frame('F', "given") + frame('D', "given") + frame('Z', ""))
	f.Add(frame('B', "") + "X\xff\xff\xff\xff")
	f.Add(frame('B', "") + frame('X', "0 0 0 -1 1 \n"))
	limits := sandbox.Limits{Output: 100, Files: 100}
	f.Fuzz(func(t *testing.T, said string) {
		r := newResultReader(limits, []File{{"given", []byte("given")}})
		begins, ends := 0, 0
		err := r.read(newFrameReader(iotest.OneByteReader(strings.NewReader(said))), func() { begins++ }, func() { ends++ })
		if err == nil && !r.complete || begins > 1 || ends != begins {
			t.Errorf("error %v, over %v, begun %d times, ended %d times", err, r.complete, begins, ends)
		}
		checkBounds(t, r.outcome(), limits)
	})
}

func checkBounds(t *testing.T, o Outcome, limits sandbox.Limits) {
	t.Helper()
	if int64(len(o.Stdout)+len(o.Stderr)) > limits.Output || len(o.Value) > 3*maxValue || len(o.Traceback) > 3*maxTraceback {
		t.Errorf("%d, %d, %d, %d bytes", len(o.Stdout), len(o.Stderr), len(o.Value), len(o.Traceback))
	}
	for _, s := range append([]string{o.Stdout, o.Stderr, o.Value, o.Traceback}, o.LeftOut...) {
		if !utf8.ValidString(s) {
			t.Errorf("%q is no text", s)
		}
	}
	var size int64
	for _, f := range o.Files {
		size += int64(len(f.Content))
		if !validName(f.Name) || f.Name == "given" && string(f.Content) == "given" {
			t.Errorf("file %q", f.Name)
		}
	}
	if size > limits.Files || len(o.Files) > maxFiles || len(o.LeftOut) > maxLeftOut || len(o.Removed) > 1 || o.CPU < 0 || o.CPU > time.Hour {
		t.Errorf("%d bytes in %d files, %d left out, %d removed, %v", size, len(o.Files), len(o.LeftOut), len(o.Removed), o.CPU)
	}
	if knownLimit(string(o.Limit)) != o.Limit && o.Limit != sandbox.LimitOutput {
		t.Errorf("limit %q", o.Limit)
	}
}

func TestFramesThatAreTooMany(t *testing.T) {
	t.Parallel()
	limits := sandbox.Limits{Output: 100, Files: 1 << 20}
	said := frame('B', "") + frame('X', "0 0 0 0 0 \n")
	for n := range 300 {
		said += frame('F', strings.Repeat("n", n+1)) + frame('D', "x") + frame('L', strings.Repeat("l", 2000)) + frame('G', "given")
	}
	r := newResultReader(limits, []File{{"given", nil}})
	if err := r.read(newFrameReader(strings.NewReader(said+frame('Z', ""))), func() {}, func() {}); err != nil {
		t.Fatal(err)
	}
	o := r.outcome()
	checkBounds(t, o, limits)
	if len(o.Files) != maxFiles || len(o.LeftOut) != maxLeftOut || !slices.Equal(o.Removed, []string{"given"}) {
		t.Errorf("%d files, %d left out, %q removed", len(o.Files), len(o.LeftOut), o.Removed)
	}
}

func TestFramesThatMakeNoSense(t *testing.T) {
	t.Parallel()
	begun, complete := frame('B', ""), frame('B', "")+frame('X', "0 0 0 0 0 \n")
	for name, said := range map[string]string{
		"nothing":              "",
		"output at first":      frame('O', "x"),
		"ready twice":          frame('Y', "") + frame('Y', ""),
		"begun twice":          begun + begun,
		"ready late":           begun + frame('Y', ""),
		"end at once":          begun + frame('Z', ""),
		"file too early":       begun + frame('F', "a"),
		"ended twice":          complete + frame('X', "0 0 0 0 0 \n"),
		"data of no file":      complete + frame('D', "x"),
		"no numbers":           begun + frame('X', "a b c\n"),
		"no line":              begun + frame('X', "0 0 0 0 0"),
		"lengths that lie":     begun + frame('X', "0 0 0 5 0 \nabc"),
		"lengths below zero":   begun + frame('X', "0 0 0 -1 1 \n"),
		"written is no number": begun + frame('W', "x"),
		"too long":             begun + "O\x00\x20\x00\x00" + strings.Repeat("x", 2<<20),
		"cut short":            begun + "O\x00\x00\x00\x09abc",
		"unknown":              begun + frame('?', ""),
	} {
		r := newResultReader(testLimits, nil)
		if err := r.read(newFrameReader(strings.NewReader(said)), func() {}, func() {}); err == nil || r.complete {
			t.Errorf("%s: %v", name, err)
		}
		if o := r.outcome(); len(o.Files) != 0 || !r.ended && o.ExitCode != -9 {
			t.Errorf("%s: %+v", name, o)
		}
	}
	if !errors.Is(newResultReader(testLimits, nil).take(0, nil), errFrame) {
		t.Error("a frame of no kind was taken")
	}
}

func TestTextIsCutBetweenCharacters(t *testing.T) {
	t.Parallel()
	r := newResultReader(sandbox.Limits{Output: 5}, nil)
	r.stdout = r.print(r.stdout, []byte("aäää"))
	if o := r.outcome(); o.Stdout != "aää" || o.Limit != sandbox.LimitOutput {
		t.Errorf("%q", o.Stdout)
	}
	r = newResultReader(sandbox.Limits{Output: 4}, nil)
	r.stdout = r.print(r.stdout, []byte("aäää"))
	if o := r.outcome(); o.Stdout != "aä" || o.Written != 7 {
		t.Errorf("%q", o.Stdout)
	}
	r = newResultReader(sandbox.Limits{Output: 6}, nil)
	r.stderr = r.print(r.stderr, bytes.Repeat([]byte("\xff"), 1))
	r.stdout = r.print(r.stdout, []byte("a\xffb\xff"))
	if o := r.outcome(); o.Stderr != "\uFFFD" || o.Stdout != "a" {
		t.Errorf("%q %q", o.Stderr, o.Stdout)
	}
}

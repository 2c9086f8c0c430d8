package python

import (
	"slices"
	"strings"
	"testing"

	"parley/shared/truncate"
	"parley/workers/internal/sandbox"
)

func TestFiles(t *testing.T) {
	t.Parallel()
	initial := []File{{"a.txt", []byte("old a")}, {"in/b.txt", []byte("old b")}, {"in/deep/ä.txt", []byte("old ä")}}
	runCases(t, []programCase{
		{"nothing done", "import glob\nsorted(glob.glob('**', recursive=True))", initial, expected{
			value: "['a.txt', 'in', 'in/b.txt', 'in/deep', 'in/deep/ä.txt']",
		}},
		{"read", "open('a.txt').read() + open('in/b.txt').read()", initial, expected{value: "'old aold b'"}},
		{
			"made", "import os\nos.makedirs('x/y')\nopen('x/y/z.bin', 'wb').write(bytes(3))\nopen('empty', 'w').close()", initial,
			expected{files: map[string]string{"x/y/z.bin": "\x00\x00\x00", "empty": ""}},
		},
		{"appended to", "open('a.txt', 'a').write('!')", initial, expected{value: "1", files: map[string]string{"a.txt": "old a!"}}},
		{"same size at once", "open('a.txt', 'w').write('new a')", initial, expected{value: "5", files: map[string]string{"a.txt": "new a"}}},
		{
			"same size and time", "import os\ns = os.stat('a.txt')\nopen('a.txt', 'r+').write('NEW a')\nos.utime('a.txt', ns=(s.st_atime_ns, s.st_mtime_ns))", initial,
			expected{files: map[string]string{"a.txt": "NEW a"}},
		},
		{"written as it was", "open('a.txt', 'w').write('old a')\nNone", initial, expected{}},
		{"replaced", "import os\nopen('n', 'w').write('x')\nos.replace('n', 'in/b.txt')", initial, expected{files: map[string]string{"in/b.txt": "x"}}},
		{"removed", "import os, shutil\nos.remove('a.txt')\nshutil.rmtree('in')", initial, expected{removed: []string{"a.txt", "in/b.txt", "in/deep/ä.txt"}}},
		{
			"folder in a file's place", "import os\nos.remove('a.txt')\nos.mkdir('a.txt')\nopen('a.txt/x', 'w').close()", initial,
			expected{files: map[string]string{"a.txt/x": ""}, removed: []string{"a.txt"}},
		},
		{"two names", "import os\nos.link('a.txt', 'b.txt')", initial, expected{files: map[string]string{"b.txt": "old a"}}},
		{
			"links", "import os\nos.symlink('/etc/passwd', 'p')\nos.symlink('/usr/lib', 'l')\nos.remove('a.txt')\nos.symlink('in/b.txt', 'a.txt')", initial,
			expected{leftOut: []string{"a.txt", "l", "p"}, removed: []string{"a.txt"}},
		},
		{"no files", "import os, socket\nos.mkfifo('f')\ns = socket.socket(socket.AF_UNIX)\ns.bind('s')", initial, expected{leftOut: []string{"f", "s"}}},
		{
			"names that are none", "open(b'\\xff', 'w').close()\nopen('a\\nb', 'w').close()\nopen('back\\\\slash', 'w').close()", nil,
			expected{files: map[string]string{`back\slash`: ""}, leftOut: []string{"a\nb", "\uFFFD"}},
		},
		{"locked", "import os\nos.mkdir('d')\nopen('d/f', 'w').write('x')\nos.chmod('d/f', 0)\nos.chmod('d', 0)\nNone", nil, expected{files: map[string]string{"d/f": "x"}}},
		{
			"deeper than a path can be", "import os\nfor n in range(40):\n    os.mkdir('d' * 200)\n    os.chdir('d' * 200)\nopen('x', 'w').close()", nil,
			expected{leftOut: []string{truncate.Bytes(strings.Repeat(strings.Repeat("d", 200)+"/", 6), maxName)}},
		},
		{"in other folders", "open('/tmp/x', 'w').write('x')\nNone", nil, expected{}},
		{"bytecode", "import mod", []File{{"mod.py", []byte("x = 1")}}, expected{}},
		{"folder lost", "import os\nos.chdir('/tmp')\nopen('/work/x', 'w').write('1')", nil, expected{value: "1", files: map[string]string{"x": "1"}}},
	})
}

func TestManyFiles(t *testing.T) {
	t.Parallel()
	o := run(t, Program{Code: "for n in range(250): open(f'{n:03}', 'w').write(str(n))"})
	if len(o.Files) != maxFiles || len(o.LeftOut) != maxLeftOut || o.LeftOut[0] != "100" || o.Files[99].Name != "099" || o.Failed() {
		t.Errorf("%d files, %d left out, failed: %v", len(o.Files), len(o.LeftOut), o.Failed())
	}
}

func TestLargeFiles(t *testing.T) {
	t.Parallel()
	large := slices.Repeat([]byte("0123456789abcdef"), 1<<20) // 16 MiB
	o := run(t, Program{
		Files: []File{{"large", large}},
		Code:  "open('copy', 'wb').write(open('large', 'rb').read() + b'!')\nopen('b', 'wb').truncate(20 << 20)\nopen('a', 'wb').truncate(10 << 20)",
	})
	names := []string{}
	for _, f := range o.Files {
		names = append(names, f.Name)
	}
	if o.Failed() || !slices.Equal(names, []string{"a", "b"}) || !slices.Equal(o.LeftOut, []string{"copy"}) {
		t.Errorf("files = %q, left out = %q, traceback: %s", names, o.LeftOut, o.Traceback)
	}
	if len(o.Files) == 2 && (len(o.Files[0].Content) != 10<<20 || len(o.Files[1].Content) != 20<<20) {
		t.Errorf("sizes %d, %d", len(o.Files[0].Content), len(o.Files[1].Content))
	}
}

func TestNamesThatCannotBePlaced(t *testing.T) {
	t.Parallel()
	for _, names := range [][]string{
		{"/etc/x"},
		{"../x"},
		{"a/../../x"},
		{""},
		{"."},
		{"a\x00b"},
		{"a\nb"},
		{"\xff"},
		{"a", "a"},
		{"a", "a/b"},
		{"a/b/c", "a"},
		{"a//b"},
		{"a/"},
		{strings.Repeat("a", maxName+1)},
	} {
		var files []File
		for _, name := range names {
			files = append(files, File{Name: name})
		}
		if err := checkFiles(files); err == nil {
			t.Errorf("%q may be placed", names)
		}
	}
	if err := checkFiles([]File{{Name: "a/b"}, {Name: "a/c"}, {Name: "ab"}, {Name: "..a"}}); err != nil {
		t.Error(err)
	}
}

func TestFilesBeyondTheLimit(t *testing.T) {
	t.Parallel()
	o := run(t, Program{Files: []File{{"a", make([]byte, testLimits.Files*3)}}, Code: "print(1)"})
	if o.Limit != sandbox.LimitFiles || o.Stdout != "" || !strings.HasPrefix(o.Traceback, "The file a cannot be placed") {
		t.Errorf("%q %q %q", o.Limit, o.Stdout, o.Traceback)
	}
	o = run(t, Program{Files: []File{{strings.Repeat("a", 300), nil}}, Code: "print(1)"}) // longer than a file name can be
	if !o.Failed() || o.Stdout != "" {
		t.Error(o)
	}
}

func TestFigures(t *testing.T) {
	t.Parallel()
	const plot = "import matplotlib.pyplot as plt\nimport matplotlib\n"
	for name, c := range map[string]struct {
		code  string
		files []string
		value string
	}{
		"left open":             {"plt.plot([1, 2])", []string{"figure-1.png"}, ""},
		"shown":                 {"plt.plot([1, 2])\nplt.show()\nplt.plot([2, 1])\nplt.show()\nplt.get_fignums()", []string{"figure-1.png", "figure-2.png"}, "[]"},
		"two":                   {"for n in 1, 2:\n    plt.figure()\n    plt.plot([n, 2])", []string{"figure-1.png", "figure-2.png"}, ""},
		"saved":                 {"plt.plot([1, 2])\nplt.savefig('mine.png')\nplt.show()", []string{"mine.png"}, ""},
		"saved and left open":   {"fig, ax = plt.subplots()\nfig.savefig('mine.svg')", []string{"mine.svg"}, ""},
		"shown, then saved":     {"fig, ax = plt.subplots()\nplt.show()\nfig.savefig('mine.png')", []string{"mine.png"}, ""},
		"saved to memory":       {"import io\nplt.plot([1, 2])\nplt.savefig(io.BytesIO())", []string{"figure-1.png"}, ""},
		"saved by an open file": {"plt.plot([1, 2])\nwith open('f.png', 'wb') as f: plt.savefig(f)", []string{"f.png"}, ""},
		"closed":                {"plt.plot([1, 2])\nplt.close()", nil, ""},
		"empty":                 {"fig = plt.figure()", nil, ""},
		"backend chosen":        {"matplotlib.use('Agg')\nplt.plot([1, 2])\nplt.show()", []string{"figure-1.png"}, ""},
		"name taken":            {"open('figure-1.png', 'w').close()\nplt.plot([1, 2])\nNone", []string{"figure-1.png", "figure-2.png"}, ""},
		"pandas":                {"import pandas as pd\nax = pd.Series([1, 2]).plot()", []string{"figure-1.png"}, ""},
		"after an exception":    {"plt.plot([1, 2])\nraise SystemExit(0)", []string{"figure-1.png"}, ""},
		"imported by name":      {"from matplotlib.pyplot import *\nplot([1, 2])\nshow()", []string{"figure-1.png"}, ""},
		"three dimensions":      {"from mpl_toolkits.mplot3d import Axes3D\nax = plt.figure().add_subplot(projection='3d')", []string{"figure-1.png"}, ""},
		"other folder":          {"import os\nos.mkdir('d')\nos.chdir('d')\nplt.plot([1])\nplt.savefig('x.png')\nplt.figure()\nx = plt.plot([1])", []string{"d/x.png", "figure-1.png"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := run(t, Program{Code: plot + c.code})
			var names []string
			for _, f := range o.Files {
				names = append(names, f.Name)
				if strings.HasSuffix(f.Name, "2.png") && !strings.HasPrefix(string(f.Content), "\x89PNG") {
					t.Errorf("%s is no picture", f.Name)
				}
			}
			if o.Failed() || o.Stderr != "" || !slices.Equal(names, c.files) || !fits(o.Value, c.value) {
				t.Errorf("files %q, value %q, stderr %q, traceback %s", names, o.Value, o.Stderr, o.Traceback)
			}
		})
	}
	t.Run("after a failure", func(t *testing.T) {
		t.Parallel()
		if o := run(t, Program{Code: plot + "plt.plot([1, 2])\n1/0"}); len(o.Files) != 0 || o.ExitCode != 1 {
			t.Errorf("%d files, exit code %d", len(o.Files), o.ExitCode)
		}
	})
}

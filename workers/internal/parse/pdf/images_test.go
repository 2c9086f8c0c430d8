package pdf

import (
	"slices"
	"strings"
	"testing"
	"time"
)

func TestLanguages(t *testing.T) {
	t.Parallel()
	for list, want := range map[string]string{
		"List of available languages in \"/usr/share/tesseract-ocr/5/tessdata/\" (4):\ndeu\neng\nosd\nchi_sim\n": "eng+chi_sim+deu",
		"osd\nequ\n": "",
		"":           "",
		"aaa\nbbb\nccc\nddd\neee\nfff\nggg\nhhh\niii\n--help\n": "aaa+bbb+ccc+ddd+eee+fff+ggg+hhh",
	} {
		if got := languages(list); got != want {
			t.Errorf("%q: %q", list, got)
		}
	}
}

func TestRanges(t *testing.T) {
	t.Parallel()
	for want, pages := range map[string][]int{
		"3": {3}, "3 and 4": {3, 4}, "3 to 5": {3, 4, 5}, "1, 3 to 5 and 9": {1, 3, 4, 5, 9},
	} {
		if got := ranges(pages); got != want {
			t.Errorf("%v: %q", pages, got)
		}
	}
	var odd []int
	for i := range 500 {
		odd = append(odd, 2*i+1)
	}
	if got := ranges(odd); len(got) > 200 || !strings.HasSuffix(got, " and more") {
		t.Errorf("many: %q", got)
	}
}

func TestUniform(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"P5\n2 2\n255\n\xff\xff\xff\xff": true, "P5\n2 2\n255\n\xff\xff\x00\xff": false, "P5\n0 0\n255\n": true, "P5": true,
	} {
		if got := uniform([]byte(text)); got != want {
			t.Errorf("%q: %v", text, got)
		}
	}
}

func TestRecognizedWords(t *testing.T) {
	t.Parallel()
	const tsv = "level\tpage_num\tblock_num\tpar_num\tline_num\tword_num\tleft\ttop\twidth\theight\tconf\ttext\n" +
		"1\t1\t0\t0\t0\t0\t0\t0\t2480\t3508\t-1\t\n" +
		"4\t1\t1\t1\t1\t0\t300\t300\t900\t60\t-1\t\n" +
		"5\t1\t1\t1\t1\t1\t300\t310\t200\t40\t96.1\tGood\n" +
		"5\t1\t1\t1\t1\t2\t600\t300\t200\t60\t91\tday\n" +
		"4\t1\t1\t1\t2\t0\t300\t400\t500\t40\t-1\t\n" +
		"5\t1\t1\t1\t2\t1\t300\t400\t200\t40\t90\tagain\n" +
		"5\t1\t1\t1\t2\t2\t600\t400\t200\t40\t5\tst@in\n" +
		"2\t1\t2\t0\t0\t0\t300\t800\t500\t40\t-1\t\n" +
		"3\t1\t2\t1\t0\t0\t300\t800\t500\t40\t-1\t\n" +
		"4\t1\t2\t1\t1\t0\t300\t800\t500\t40\t-1\t\n" +
		"5\t1\t2\t1\t1\t1\t300\t800\t200\t40\t90\tOther\n" +
		"5\t1\tbroken\n"
	p := &page{number: 7, width: 595}
	if err := p.fill(strings.NewReader(tsv), 0.24); err != nil || p.number != 7 || p.width != 595 {
		t.Fatalf("%+v, %v", p, err)
	}
	var lines []string
	for _, l := range p.lines {
		lines = append(lines, p.lineText(l, true))
	}
	if !slices.Equal(lines, []string{"Good day", "again", "Other"}) || len(p.blocks) != 2 {
		t.Fatalf("%q, %+v", lines, p.blocks)
	}
	if b := p.blocks[0].box; b != (box{72, 72, 192, 105.6}) {
		t.Errorf("block at %v", b)
	}
	if p.words[0].y0 != 72 || p.words[0].y1 != 86.4 {
		t.Errorf("a word at %v", p.words[0].box)
	}
}

func TestTimeForImagesEnds(t *testing.T) {
	t.Parallel()
	if (&images{config: Config{Wall: time.Hour, CPU: time.Hour}, began: time.Now()}).outOfTime() {
		t.Error("outOfTime at the beginning = true")
	}
	if !(&images{config: Config{Wall: time.Hour}, began: time.Now().Add(-46 * time.Minute)}).outOfTime() {
		t.Error("outOfTime after most of the time = false")
	}
	if !(&images{config: Config{CPU: time.Nanosecond}, began: time.Now()}).outOfTime() {
		t.Error("outOfTime after the processor time = false")
	}
}
